"""Natural compression, as in kernels/natural.h: see there for codes, wires and error.

A kind is a wire format with a way to code a sum and to read a code. `encode`, `decode`, `add` and `reduce`
are written once for all kinds; the kernels at the end give them their names.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from .basic import add_values, widen_bf16, widen_f16
from .rng import draws, draws64

INF = 0x7F800000


def signed(c: np.ndarray, negative: np.ndarray, nan: np.ndarray, bit: int) -> np.ndarray:
    """Sign above c; zero has no sign; NaN is the sign alone."""
    return np.where(nan, bit, c + bit * (negative & (c > 0))).astype(np.uint16)


def magnitude(v: np.ndarray) -> np.ndarray:
    """The bits of |v| as int64: integers order and add as the floats' exponents and mantissas do."""
    return v.view(np.uint32).astype(np.int64) & 0x7FFFFFFF


def level(u: np.ndarray, r: np.ndarray, s: int) -> np.ndarray:
    """The level of |float| u where the levels are 0 and the powers of two with exponents above s."""
    e, m = u >> 23, u & 0x7FFFFF
    lowest = np.maximum(e, 1)
    whole = np.where(e > 0, m | 0x800000, m) << 9
    fraction = np.where(lowest > s, m << 9, whole >> np.clip(s + 1 - lowest, 0, 63))
    return np.where(lowest > s, e - s, 0) + (fraction + r >> 32)


def code_f32(v, r):
    u = magnitude(v)
    c = np.where(u >= INF, 255, np.minimum(level(u, r, 0), 254))
    return signed(c, np.signbit(v), np.isnan(v), 256)


def value_f32(code):
    bits = code.astype(np.uint32)
    bits = np.where(bits == 256, 0x7FC00000, bits >> 8 << 31 | (bits & 255) << 23)
    return bits.astype(np.uint32).view(np.float32)


def code_f16(v, r):
    u = magnitude(v)
    c = np.where(u >= 143 << 23, 31, np.minimum(level(u, r, 112), 30))
    return signed(c, np.signbit(v), np.isnan(v), 32)


def half_f16(code):
    """The bits of a code's float16."""
    return np.where(code == 32, 0x7E00, (code & 31) << 10 | code >> 5 << 15).astype(np.uint16)


def value_f16(code):
    return widen_f16(half_f16(code))


def code_f64(v, r):
    u = v.view(np.uint64) & np.uint64((1 << 63) - 1)
    c = (u + (r >> np.uint64(12)) >> np.uint64(52)).astype(np.int64)
    c = np.where(np.isinf(v), 2047, np.minimum(c, 2046))
    return signed(c, np.signbit(v), np.isnan(v), 2048)


def value_f64(code):
    bits = code.astype(np.uint64)
    sign, c = bits >> np.uint64(11) << np.uint64(63), (bits & np.uint64(2047)) << np.uint64(52)
    return np.where(code == 2048, np.uint64(0x7FF8 << 48), sign | c).view(np.float64)


def fields(values: np.ndarray, bits: int) -> np.ndarray:
    """Small integers packed `bits` each, the first lowest, into bytes; unused bits are 0."""
    each = 8 // bits
    padded = np.zeros(-(-values.size // each) * each, np.uint8)
    padded[: values.size] = values
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1)


def unfields(packed: np.ndarray, bits: int, n: int) -> np.ndarray:
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    return (packed[:, None] >> shifts & np.uint8((1 << bits) - 1)).ravel()[:n].astype(np.uint16)


class Split:
    """A wire of two parts for each block of 64: `one` low bits of every code, then `two` high bits."""

    def __init__(self, one, two, code, value, draw=draws):
        self.one, self.two, self.code, self.value, self.draw = one, two, code, value, draw

    def size(self, n: int) -> int:
        return -(-n * self.one // 8) + -(-n * self.two // 8)

    def pack(self, v, r, wire):
        n, code = v.size, self.code(v, r)
        low, high = fields(code & ((1 << self.one) - 1), self.one), fields(code >> self.one, self.two)
        for part, bits, skip in ((low, self.one, 0), (high, self.two, 8 * self.one)):
            for place, view in self._places(n, bits, skip):
                wire[place] = part[view]

    def unpack(self, wire, n):
        parts = []
        for bits, skip in ((self.one, 0), (self.two, 8 * self.one)):
            part = np.empty(-(-n * bits // 8), np.uint8)
            for place, view in self._places(n, bits, skip):
                part[view] = wire[place]
            parts.append(unfields(part, bits, n))
        return self.value(parts[0] | parts[1] << self.one)

    def _places(self, n, bits, skip):
        """Where a part's bytes stand in the wire: indices for whole blocks, a slice for a short one."""
        whole, short, step = n // 64, n % 64, 8 * (self.one + self.two)
        nbytes = 8 * bits
        if whole:
            places = step * np.arange(whole)[:, None] + np.arange(skip, skip + nbytes)
            yield places.ravel(), slice(0, whole * nbytes)
        if short:
            start = whole * step + (-(-short * self.one // 8) if skip else 0)
            length = -(-short * bits // 8)
            yield slice(start, start + length), slice(whole * nbytes, whole * nbytes + length)


class Window:
    """natural8: for each 512 values a byte base, then bytes sign << 7 | c; exponent c + max(base-127, 0)."""

    draw = staticmethod(draws)

    def size(self, n: int) -> int:
        return n + -(-n // 512)

    def pack(self, v, r, wire):
        for at in range(0, v.size, 512):
            block = v[at : at + 512]
            u = magnitude(block)
            top = np.where(u >= INF, 255, np.minimum(u + 0x7FFFFF >> 23, 254))
            base = int(np.where(u > INF, 0, top).max())
            s = max(base - 127, 0)
            c = np.where(u >= INF, 127, np.minimum(level(u, r[at : at + 512], s), 254 - s))
            start = at + at // 512
            wire[start] = base
            wire[start + 1 : start + 1 + block.size] = signed(c, np.signbit(block), np.isnan(block), 128)

    def unpack(self, wire, n):
        index = np.arange(n)
        code = wire[index + index // 512 + 1].astype(np.uint32)
        s = np.maximum(wire[index // 512 * 513].astype(np.int64) - 127, 0)
        c = code & 127
        bits = np.where(code == 128, 0x7FC00000, code >> 7 << 31 | np.where(c > 0, c + s, 0) << 23)
        return bits.astype(np.uint32).view(np.float32)


def same(x):
    return x


def high_half(v):
    return (v.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def f16_of(v):
    with np.errstate(invalid="ignore"):
        bits = v.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(v), np.uint16(0x7E00), bits)


def encode(wire_format, widen, x, n, wire, key, first, offset, nearest):
    """Values to wire, each rounded by its own random number."""
    wire_format.pack(widen(x[:n]), wire_format.draw(n, key, first, offset, nearest), wire)


def decode(wire_format, narrow, wire, n, out):
    """Wire to values; any bytes are a wire."""
    out[:n].view(f"u{out.itemsize}")[:] = narrow(wire_format.unpack(wire, n)).view(f"u{out.itemsize}")


def add(wire_format, wire, n, acc, weight):
    """acc += weight * values."""
    add_values(wire_format.unpack(wire, n), acc[:n], weight)


def reduce(wire_format, widen, wires, p, position, own, n, scale, out, key, first, offset, nearest):
    """The sum of the wires' values, with `own` before wires[position], times scale, encoded again."""
    terms = [wire_format.unpack(wire, n) for wire in wires[:p]]
    if own is not None:
        terms.insert(position, widen(own[:n]))
    with np.errstate(all="ignore"):
        total = terms[0].copy()
        for term in terms[1:]:
            total += term
        total *= total.dtype.type(scale)
    wire_format.pack(total, wire_format.draw(n, key, first, offset, nearest), out)


NINE, TWELVE = Split(8, 1, code_f32, value_f32), Split(8, 4, code_f64, value_f64, draws64)
SIX, EIGHT = Split(4, 2, code_f16, value_f16), Window()

natural_encode_f32, natural_encode_bf16 = partial(encode, NINE, same), partial(encode, NINE, widen_bf16)
natural_encode_f16, natural_encode_f64 = partial(encode, SIX, widen_f16), partial(encode, TWELVE, same)
natural_decode_f32, natural_decode_bf16 = partial(decode, NINE, same), partial(decode, NINE, high_half)
natural_decode_f16, natural_decode_f64 = partial(decode, SIX, f16_of), partial(decode, TWELVE, same)
natural_add_f32 = natural_add_bf16 = partial(add, NINE)
natural_add_f16, natural_add_f64 = partial(add, SIX), partial(add, TWELVE)
natural_reduce_f32, natural_reduce_bf16 = partial(reduce, NINE, same), partial(reduce, NINE, widen_bf16)
natural_reduce_f16, natural_reduce_f64 = partial(reduce, SIX, widen_f16), partial(reduce, TWELVE, same)
natural8_encode_f32, natural8_decode_f32 = partial(encode, EIGHT, same), partial(decode, EIGHT, same)
natural8_add_f32, natural8_reduce_f32 = partial(add, EIGHT), partial(reduce, EIGHT, same)
