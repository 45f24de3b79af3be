"""Dithering, as in kernels/dithering.h: see there for levels, wire and error.

A `Scaled` wire has blocks of a scale and planes of bits; it is written for all blocks of a length at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from . import natural
from .basic import round_bf16, round_f16, widen_bf16, widen_f16
from .natural import same
from .rng import draws, groups, lanes

NATURAL_LEVELS, NATURAL_NORM = 1, 2  # flags
WIDEN = {"f32": same, "f64": same, "f16": widen_f16, "bf16": widen_bf16}
LIMIT = {"f32": np.inf, "f64": np.inf, "f16": 65520.0, "bf16": float(np.uint32(0x7F7F8000).view(np.float32))}
MOST = {"f16": np.float32(65504), "bf16": np.uint32(0x7F7F0000).view(np.float32)}
SPARE = {"f32": 0, "f64": 0, "f16": 0x1FFF, "bf16": 0xFFFF}


def sums(q: np.ndarray) -> np.ndarray:
    """Sums of the rows of doubles (rows, a multiple of 64), in the order that all kernels follow."""
    q = q.reshape(len(q), -1, 64)
    for half in (32, 16, 8):
        q = q[:, :, :half] + q[:, :, half:]
    s = np.add.accumulate(q, axis=1)[:, -1]
    for half in (4, 2, 1):
        s = s[:, :half] + s[:, half:]
    return s[:, 0]


def norms(v: np.ndarray, p: int) -> tuple[np.ndarray, np.ndarray]:
    """The p-norm (0 for the largest value) of each row times a power of two, and that factor.

    The factor is 1 but where squares of doubles could overflow or vanish.
    """
    a = np.abs(v.astype(np.float64))
    most = a.max(axis=1)
    e = (most.view(np.uint64) >> np.uint64(52)).astype(np.int64)
    fits = (most == 0) | ((most < 1e120) & (most > 1 / 1e120)) | ~np.isfinite(most)
    factor = np.where(fits, 1.0, np.ldexp(1.0, np.clip(2046 - e, 1, 2045) - 1023))
    a *= factor[:, None]
    with np.errstate(all="ignore"):
        size = a.max(axis=1) if p == 0 else sums(a) if p == 1 else np.sqrt(sums(a * a))
    return size, factor


def sent_f32(size: np.ndarray, spare: int) -> np.ndarray:
    """Norms as float32: at most the largest, the spare bits rounded up."""
    u = np.minimum(size, np.finfo(np.float32).max).astype(np.float32).view(np.uint32)
    u = u + np.uint32(spare) & np.uint32(~spare & 0xFFFFFFFF)
    return np.where(u >= 0x7F800000, np.uint32(0x7F7FFFFF & ~spare), u).astype(np.uint32).view(np.float32)


def planes(code: np.ndarray, bits: int) -> np.ndarray:
    """Rows of codes (level, sign in bit 7) of any length as the bytes of their planes, group after group."""
    rows, m = code.shape
    which = np.array([*range(bits - 1), 7], np.uint8)
    parts = []
    for lo, hi in ((0, m // 64 * 64), (m // 64 * 64, m)):
        if lo < hi:
            part = code[:, lo:hi].reshape(rows, -1, 1, min(hi - lo, 64)) >> which[:, None] & 1
            parts.append(np.packbits(part, axis=3, bitorder="little").reshape(rows, -1))
    return np.concatenate(parts, axis=1)


def codes(packed: np.ndarray, bits: int, m: int) -> np.ndarray:
    """The codes of rows of m values from their planes."""
    rows, whole = len(packed), m // 64
    which = np.array([*range(bits - 1), 7], np.uint8)
    parts = []
    cut = whole * 8 * bits
    for part, count, length in ((packed[:, :cut], whole, 64), (packed[:, cut:], 1, m % 64)):
        if length and count:
            each = np.unpackbits(part.reshape(rows, count, bits, -1), axis=3, count=length, bitorder="little")
            parts.append(np.bitwise_or.reduce(each << which[:, None], axis=2).reshape(rows, -1))
    return np.concatenate(parts, axis=1)


class Scaled:
    """A wire of blocks, each a scale of `head` bytes and planes of `bits` bits; a codec says what they mean."""

    def __init__(self, kind: str, bits: int, block: int, head: int):
        self.kind, self.bits, self.block, self.head = kind, bits, block, head
        self.real: Any = np.float64 if kind == "f64" else np.float32

    def size(self, n: int) -> int:
        whole, m = divmod(n, self.block)
        return whole * self._span(self.block) + (self._span(m) if m else 0)

    def _span(self, m: int) -> int:
        return self.head + m // 64 * 8 * self.bits + -(-(m % 64) // 8) * self.bits

    def _rows(self, n: int):
        """(first value, values, rows) of the whole blocks, and of the short one."""
        whole, m = divmod(n, self.block)
        return [(lo, k, r) for lo, k, r in ((0, self.block, whole), (whole * self.block, m, 1)) if k and r]

    def draw(self, n, key, first, offset, nearest):
        """A random number for each value, and 64 bits for each group, of which a scale may use the first of a block."""
        r = draws(n, key, first, offset, nearest)
        a, b = groups(key, first, -(-n // 64))
        high, low = lanes(b ^ np.uint32(0x5851F42D), a).reshape(-1, 64)[:, :2].T.astype(np.uint64)
        high = high + np.uint64(offset) & np.uint64(0xFFFFFFFF)
        more = high << np.uint64(32) | low
        return r, np.full_like(more, 1 << 63) if nearest else more

    def pack(self, v, random, wire):
        r, more = random
        for lo, m, rows in self._rows(v.size):
            padded = np.zeros((rows, -(-m // 64) * 64), self.real)
            padded[:, :m] = v[lo : lo + rows * m].reshape(rows, m)
            draw = r[lo : lo + rows * m].reshape(rows, m)
            head, code = self.quantise(padded, draw, more[lo // 64 :: self.block // 64][:rows], m)
            at = self.size(lo)
            part = np.concatenate([head.view(np.uint8).reshape(rows, -1), planes(code, self.bits)], axis=1)
            wire[at : at + part.size] = part.ravel()

    def unpack(self, wire, n):
        v = np.empty(n, self.real)
        for lo, m, rows in self._rows(n):
            at, span = self.size(lo), self._span(m)
            part = wire[at : at + rows * span].reshape(rows, span)
            scale = self.read(np.ascontiguousarray(part[:, : self.head]))
            with np.errstate(all="ignore"):
                values = self.values(codes(part[:, self.head :], self.bits, m), scale[:, None])
            v[lo : lo + rows * m] = np.where(np.isnan(scale)[:, None], self.real(np.nan), values).ravel()
        return v

    def read(self, head: np.ndarray) -> np.ndarray:
        """Scales from their bytes: their signs do not count, what is not finite is NaN."""
        scale = np.abs(head.view(self.real)[:, 0])
        return np.where(np.isfinite(scale), scale, self.real(np.nan))


class Dithered(Scaled):
    """Levels of a norm. One natural level above 0 is a standard one; float32 has more bits for these."""

    def __init__(self, kind: str, bits: int, p: int, block: int, flags: int):
        self.natural, self.natural_norm = bool(flags & NATURAL_LEVELS), bool(flags & NATURAL_NORM)
        self.natural &= bits > 2 or kind == "f64"
        norm = 8 if kind == "f64" else 4
        super().__init__(kind, bits, block, norm // 4 if self.natural_norm else norm)
        self.p, self.top = p, (1 << bits - 1) - 1

    def quantise(self, v, r, more, m):
        bad = ~(np.abs(v).max(axis=1) < LIMIT[self.kind])
        with np.errstate(all="ignore"):
            size, factor = norms(np.where(bad[:, None], 0, v), self.p)
            if self.kind == "f64":
                norm = np.minimum(size / factor, np.finfo(np.float64).max)
            else:
                norm = sent_f32(size, SPARE[self.kind])
                factor = np.where(norm < 2.0**-63, np.float32(2.0**96), np.float32(1))
            y = v[:, :m] * factor[:, None] * self.inverse(norm, factor)[:, None]
        y[bad | (norm == 0)] = 0
        level = (self.natural_level if self.natural else self.standard_level)(y, r)
        code = np.minimum(np.abs(level), self.top) + 128 * (level < 0)
        return self.write(np.where(bad, self.real(np.nan), norm), more), code.astype(np.uint8)

    def inverse(self, norm, factor):
        """What values times the factor are multiplied with, to be compared with levels."""
        if self.natural:
            unit = norm * factor
        elif self.natural_norm:  # the decoder's is another, and its step proportional to it
            unit = norm * factor * self.unit(self.real([1]))
        else:
            unit = self.unit(norm) * factor
        return self.real(self.one) / unit

    @property
    def one(self):
        """What is compared with the highest natural level, or with one standard level."""
        if self.kind == "f64":
            return 2.0 ** (self.top - 1) if self.natural else 1.0
        return 2.0**64 if self.natural else 2.0 ** (31 - self.bits)

    def unit(self, norm):
        """What levels are multiplied with: the norm, or norm / u rounded up, to bits that the kind has room for."""
        if self.natural:
            return norm
        step = (norm.astype(np.float64) / self.top).astype(self.real)
        u = step.view(f"u{step.itemsize}") + (step.astype(np.float64) * self.top < norm)
        spare = SPARE[self.kind]
        if spare and self.top > 1:
            spare = (spare + 1) * (self.top + 1) - 1
        return (u + spare - (u + spare) % (spare + 1)).astype(f"u{step.itemsize}").view(self.real)

    def standard_level(self, y, r):
        """The level below y, and one more with the probability of the fraction: random bits carry into the level.

        Of float64, which is in levels, 32 bits of the fraction count, of float32 31 - bits.
        """
        if self.kind == "f64":
            fixed = (y + 1.5 * 2**20).view(np.int64) - np.int64((1043 << 52) + (1 << 51))
            return (fixed >> 32) + (r < (fixed & 0xFFFFFFFF))
        return y.astype(np.int32) + (r >> np.uint32(self.bits + 1)).astype(np.int32) >> 31 - self.bits

    def natural_level(self, y, r):
        """The power of two below |y|, and one more; below the lowest y / 2 and half of that take the place of y."""
        a = np.abs(y)
        if self.kind == "f64":
            w = np.maximum(a, 0.5 * a + 0.5).view(np.int64)
            level = (w >> 52) - 1022 + (r < (w >> 20 & 0xFFFFFFFF))
        else:
            half = np.float32(2.0 ** (64 - self.top))
            w = np.maximum(a, np.float32(0.5) * a + half).view(np.uint32)
            level = (w + (r >> np.uint32(9)) >> np.uint32(23)).astype(np.int32) - (191 - self.top)
        return np.where(np.signbit(y), -level, level)

    def write(self, norm, more):
        if not self.natural_norm:
            return norm
        if self.kind == "f64":
            return np.where(np.isnan(norm), 2047, natural.code_f64(norm, more)).astype(np.uint16)
        return np.where(np.isnan(norm), 255, natural.code_f32(norm, (more >> np.uint64(32)).astype(np.uint32))).astype(
            np.uint8
        )

    def read(self, head):
        if not self.natural_norm:
            return super().read(head)
        if self.kind == "f64":
            u = np.minimum(head.view(np.uint16)[:, 0], 2047).astype(np.uint64) << np.uint64(52)
        else:
            u = head[:, 0].astype(np.uint32) << np.uint32(23)
        return super().read(u.view(np.uint8).reshape(len(head), -1))

    def values(self, code, norm):
        level = (code & 127).astype(np.int32)
        if self.natural:
            level = np.where(level > 0, np.ldexp(self.real(1), level - self.top), self.real(0))
        v = np.where(code > 127, -level, level).astype(self.real) * self.unit(norm)
        return v if self.natural or SPARE[self.kind] else np.clip(v, -norm, norm)


def narrow(kind: str):
    """Sums to how they are stored; what is finite stays so."""
    if kind in ("f32", "f64"):
        return same

    def stored(v):
        out = np.empty(v.size, np.uint16)
        most = MOST[kind]
        (round_f16 if kind == "f16" else round_bf16)(np.clip(v, -most, most), v.size, out)
        return out

    return stored


def encode(make, kind, x, n, wire, key, first, offset, nearest, *tail):
    natural.encode(make(kind, *tail), WIDEN[kind], x, n, wire, key, first, offset, nearest)


def decode(make, kind, wire, n, out, *tail):
    natural.decode(make(kind, *tail), narrow(kind), wire, n, out)


def add(make, kind, wire, n, acc, weight, *tail):
    natural.add(make(kind, *tail), wire, n, acc, weight)


def reduce(make, kind, wires, p, position, own, n, scale, out, key, first, offset, nearest, *tail):
    wire_format = make(kind, *tail)
    natural.reduce(wire_format, WIDEN[kind], wires, p, position, own, n, scale, out, key, first, offset, nearest)


def kernels(name: str, make: Any) -> dict[str, Any]:
    """The kernels of a codec whose wires `make(kind, *tail)` describes, by name."""
    return {
        f"{name}_{verb.__name__}_{kind}": partial(verb, make, kind)
        for verb in (encode, decode, add, reduce)
        for kind in WIDEN
    }


globals().update(kernels("dithering", Dithered))
