"""grid: each value on an absolute grid, rounded up or down at random.

The wire has `bits` bits a value: the number of the grid point in two's complement, the lowest number of all for NaN, packed into
bytes with the first value lowest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import CodecError
from .base import Codec
from .blocked import Blocked


@dataclass(frozen=True)
class Grid(Blocked, name="grid"):
    """Multiples of `step` up to (2^(bits-1) - 1) * step, beyond which values are cut off (and NaN and Inf become NaN).

    Within that range it is unbiased, and its variance is at most step^2 / 4 a value, whatever the values are: bounded in
    absolute terms, which ECD needs. There is no bound relative to the values.
    """

    family = "grid"

    step: float = 0.01
    bits: int = 8

    kinds = ("f32", "f64")
    unbiased = True
    bounded = True

    def check(self) -> None:
        if not 0 < self.step < float("inf"):
            raise CodecError(f"grid: step={self.step!r} must be positive and finite")
        if self.bits not in (2, 4, 8, 16):
            raise CodecError(f"grid: bits={self.bits!r} must be 2, 4, 8 or 16")

    def omega(self, n: int) -> float:
        return float("inf")

    def size(self, n: int, kind: str) -> int:
        return -(-n * self.bits // 8)

    def tail(self) -> tuple[Any, ...]:
        return self.step, self.bits

    add_into = Codec.add_into
    reduce_into = Codec.reduce_into
