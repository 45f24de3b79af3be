"""Sparse codecs, as in kernels/sparse.h: see there for the wire and the error.

The k values of block b begin at values[b * pace], what follows them at tail[b * stride]. `scatter` and `accumulate` return
0, or 1 for bytes that are no wire.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from .basic import round_bf16, round_f16, widen_bf16, widen_f16
from .rng import draws, groups

MARK = 1 << 63
INFINITE = {"f32": 0x7F800000, "f64": 0x7FF0 << 48, "f16": 0x7C00, "bf16": 0x7F80}
NAN = {"f32": 0x7FC00000, "f64": 0x7FF8 << 48, "f16": 0x7E00, "bf16": 0x7FC0}
WIDEN = {"f16": widen_f16, "bf16": widen_bf16}
NARROW = {"f16": round_f16, "bf16": round_bf16}


def magnitudes(x: np.ndarray) -> np.ndarray:
    """The bits of |x|: integers order as the magnitudes do, NaN above Inf."""
    u = x.view(f"u{x.itemsize}")
    return u & u.dtype.type((1 << 8 * x.itemsize - 1) - 1)


def widen(values: np.ndarray, kind: str) -> np.ndarray:
    """Stored values in the type of their sums."""
    return WIDEN[kind](values) if kind in WIDEN else values.view(f"f{values.itemsize}")


def narrow(sums: np.ndarray, kind: str) -> np.ndarray:
    """The bits of sums rounded to how they are stored."""
    if kind not in NARROW:
        return sums.view(f"u{sums.itemsize}")
    out = np.empty(sums.size, np.uint16)
    NARROW[kind](sums, sums.size, out)
    return out


# Which k of m


def largest(u: np.ndarray, k: int) -> np.ndarray:
    """The indices of the k largest, of equal ones the first, in order."""
    t = np.partition(u, u.size - k)[u.size - k]
    above = np.flatnonzero(u > t)
    return np.sort(np.concatenate([above, np.flatnonzero(u == t)[: k - above.size]]))


def words(key: int, first: int, count: int) -> np.ndarray:
    """64 random bits for each of `count` numbers from `first` on."""
    a, b = groups(key, first * 64, count)
    return b.astype(np.uint64) << np.uint64(32) | a


def drawn(key: int, m: int, k: int) -> np.ndarray:
    """The indices that a block's key draws, in order: one of each of k cells, which are turned around the block."""
    cells = np.arange(k + 1)
    begin = cells * (m // k) + (cells * -(-(m % k << 32) // k) >> 32)
    offset = draws(k, key).astype(np.uint64) * np.diff(begin).astype(np.uint64) >> np.uint64(32)
    turn = (int(words(key, 1024, 1)[0]) >> 16) * m >> 48
    return np.sort((begin[:-1] + offset.astype(np.int64) + turn) % m)


def width(m: int) -> int:
    """Bits of an index below m."""
    return (m - 1).bit_length()


def pack(index: np.ndarray, bits: int) -> np.ndarray:
    places = index[:, None] >> np.arange(bits) & 1
    return np.packbits(places.astype(np.uint8).ravel(), bitorder="little")


def unpack(wire: np.ndarray, bits: int, k: int) -> np.ndarray:
    places = np.unpackbits(wire, bitorder="little")[: k * bits].reshape(k, bits)
    return places.astype(np.int64) @ (1 << np.arange(bits))


# What differs between the two: how a tail is written and read


def write_topk(x, kind, k, key, number):
    u = magnitudes(x)
    index = largest(u, k)
    mark = np.count_nonzero(u >= INFINITE[kind]) > k
    return index, np.append(pack(index, width(x.size)), np.uint8(mark))


def read_topk(tail, m, k):
    used = -(-k * width(m) // 8)
    index, mark = unpack(tail[:used], width(m), k), int(tail[used])
    return (index, mark) if np.all(np.diff(index) > 0) and index[-1] < m and mark <= 1 else None


def write_randk(x, kind, k, key, number):
    own = int(words(key, number, 1)[0]) & ~MARK
    mark = MARK if np.any(magnitudes(x) >= INFINITE[kind]) else 0
    return drawn(own, x.size, k), np.array([own | mark], "<u8").view(np.uint8)


def read_randk(tail, m, k):
    word = int(tail[:8].copy().view("<u8")[0])
    return drawn(word & ~MARK, m, k), word >> 63


def select(write, kind, x, n, block, k, values, pace, tail, stride, key, first):
    """The chosen values of each block, and what tells where they belong."""
    for b in range(n // block):
        part = x[b * block : (b + 1) * block]
        index, written = write(part, kind, k, key, first + b)
        values[b * pace :][: k * x.itemsize] = part[index].view(np.uint8)
        tail[b * stride :][: written.size] = written


def blocks(read, random, kind, itemsize, values, pace, tail, stride, n, block, k):
    """For each block (from, to, indices, values as sums), None for a marked block; nothing more after a bad one."""
    for b in range(n // block):
        found = read(tail[b * stride :], block, k)
        if found is None:
            yield None
            return
        stored = values[b * pace :][: k * itemsize].copy().view(f"u{itemsize}")
        sums = widen(stored, kind)
        if random:
            with np.errstate(all="ignore"):
                sums = sums * (sums.dtype.type(block) / sums.dtype.type(k))
        yield slice(b * block, (b + 1) * block), found[0], None if found[1] else (stored, sums)


def scatter(read, random, kind, values, pace, tail, stride, n, block, k, out):
    """out = the blocks: the values where they belong, zeros elsewhere."""
    for found in blocks(read, random, kind, out.itemsize, values, pace, tail, stride, n, block, k):
        if found is None:
            return 1
        place, index, both = found
        bits = out[place].view(f"u{out.itemsize}")
        bits[:] = NAN[kind] if both is None else 0
        if both is not None:
            bits[index] = narrow(both[1], kind) if random else both[0]
    return 0


def accumulate(read, random, kind, values, pace, tail, stride, n, block, k, acc, weight):
    """acc += weight * the blocks."""
    itemsize = {"f32": 4, "f64": 8}.get(kind, 2)
    for found in blocks(read, random, kind, itemsize, values, pace, tail, stride, n, block, k):
        if found is None:
            return 1
        place, index, both = found
        if both is None:
            acc[place] = np.nan
        else:
            with np.errstate(all="ignore"):
                acc[place][index] += acc.dtype.type(weight) * both[1]
    return 0


for _kind in INFINITE:
    for _name, _write, _read, _random in (("topk", write_topk, read_topk, 0), ("randk", write_randk, read_randk, 1)):
        globals()[f"{_name}_select_{_kind}"] = partial(select, _write, _kind)
        globals()[f"{_name}_scatter_{_kind}"] = partial(scatter, _read, _random, _kind)
        globals()[f"{_name}_accumulate_{_kind}"] = partial(accumulate, _read, _random, _kind)
