"""Values on an absolute grid, as in kernels/grid.h: see there for wire and error."""

from __future__ import annotations

import numpy as np

from .rng import draws


def encode(x, n, wire, key, first, offset, nearest, step, bits):
    """`offset` and `nearest` as for every encoder; a grid has no use for them but here they count."""
    most = (1 << bits - 1) - 1
    chance = np.full(n, 1 << 31, np.uint32) if nearest else draws(n, key, first) + np.uint32(offset)
    with np.errstate(all="ignore"):
        values = x[:n].astype(np.float64)
        place = np.floor(values / np.float64(step) + chance / 2.0**32)
    number = np.where(np.isfinite(values), np.clip(place, -most, most), -most - 1).astype(np.int32)
    size = -(-n * bits // 8)
    if bits >= 8:
        wire[:size] = number.astype(f"<i{bits // 8}").view(np.uint8)
        return
    each = 8 // bits
    padded = np.zeros(size * each, np.uint8)
    padded[:n] = number & (1 << bits) - 1
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    wire[:size] = np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1)


def decode(wire, n, out, step, bits):
    size = -(-n * bits // 8)
    if bits >= 8:
        number = wire[:size].copy().view(f"<i{bits // 8}").astype(np.int32)
    else:
        shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
        number = (wire[:size, None] >> shifts).ravel()[:n].astype(np.int32) << 32 - bits >> 32 - bits
    with np.errstate(over="ignore"):
        out[:n] = np.where(number == -(1 << bits - 1), np.nan, number * np.float64(step))


grid_encode_f32 = grid_encode_f64 = encode
grid_decode_f32 = grid_decode_f64 = decode
