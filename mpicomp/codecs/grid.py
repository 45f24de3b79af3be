"""grid: each value on an absolute grid, rounded up or down at random.

The wire has `bits` bits a value: the number of the grid point in two's complement, the lowest number of all for NaN, packed into
bytes with the first value lowest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from ..arrays import Flat, is_cupy
from ..errors import CodecError
from ..reference.rng import draws
from .base import Codec, Stream


@dataclass(frozen=True)
class Grid(Codec, name="grid"):
    """Multiples of `step` up to (2^(bits-1) - 1) * step, beyond which values are cut off (and NaN and Inf become NaN).

    Within that range it is unbiased, and its variance is at most step^2 / 4 a value, whatever the values are: bounded in
    absolute terms, which ECD needs. There is no bound relative to the values.
    """

    step: float = 0.01
    bits: int = 8

    kinds = ("f32", "f64")
    unbiased = True
    bounded = True  # the variance is, in absolute terms

    def __post_init__(self) -> None:
        if not 0 < self.step < float("inf"):
            raise CodecError(f"grid: step={self.step!r} must be positive")
        if self.bits not in (2, 4, 8, 16):
            raise CodecError(f"grid: bits={self.bits!r} must be 2, 4, 8 or 16")

    def omega(self, n: int) -> float:
        return float("inf")

    def size(self, n: int, kind: str) -> int:
        return -(-n * self.bits // 8)

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        if is_cupy(wire):  # there is no kernel for it
            return through_host(lambda data, out: self.encode_into(Flat(data, x.kind), out, stream), x.data, wire)
        most = (1 << self.bits - 1) - 1
        with np.errstate(all="ignore"):
            place = np.floor(x.data / np.float64(self.step) + draws(x.n, stream.key, stream.first) / 2.0**32)
        number = np.where(np.isfinite(x.data), np.clip(place, -most, most), -most - 1).astype(np.int32)
        if self.bits >= 8:
            wire.view(f"i{self.bits // 8}")[:] = number
            return
        each = 8 // self.bits
        padded = np.zeros(wire.size * each, np.uint8)
        padded[: x.n] = number & (1 << self.bits) - 1
        shifts = np.arange(each, dtype=np.uint8) * np.uint8(self.bits)
        wire[:] = np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1)

    def decode_into(self, wire: Any, out: Flat) -> None:
        if is_cupy(wire):
            return through_host(lambda data, result: self.decode_into(data, Flat(result, out.kind)), wire, out.data)
        if self.bits >= 8:
            number = wire.view(f"i{self.bits // 8}").astype(np.int32)
        else:
            shifts = np.arange(8 // self.bits, dtype=np.uint8) * np.uint8(self.bits)
            number = (wire[:, None] >> shifts).ravel()[: out.n].astype(np.int32) << 32 - self.bits >> 32 - self.bits
        out.data[:] = np.where(number == -(1 << self.bits - 1), np.nan, number * self.step)


def through_host(work: Callable[[Any, Any], None], x: Any, out: Any) -> None:
    """work(x, out) on arrays of a GPU, done by the CPU."""
    result = np.empty(out.shape, out.dtype)
    work(x.get(), result)
    out.set(result)
