"""dithering: each value as one of evenly spaced parts of its block's norm, up or down at random.

In each block of `block` values, |x| / norm goes to one of the two next levels j/u, u = 2^(bits-1) - 1, with the
probabilities that keep its expectation. docs/wire-format.md states every byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

from ..errors import CodecError
from .blocked import Blocked, blocks_size

MOST_BLOCK = 1 << 20
NATURAL_LEVELS, NATURAL_NORM = 1, 2  # flags of the kernels


class Dithered(Blocked):
    """What all dithering codecs share; each has bits, block, p and norm, as settings or fixed."""

    family = "dithering"
    unbiased = True
    natural_levels = False
    bits: Any
    block: Any
    p: Any
    norm: Any

    def check(self) -> None:
        if self.bits not in range(2, 9):
            raise CodecError(f"{self.name}: bits={self.bits!r} must be 2 to 8")
        check_block(self.name, self.block)
        if self.p not in (1, 2, "inf", float("inf")):
            raise CodecError(f"{self.name}: p={self.p!r} must be 1, 2 or inf")
        if type(self.p) not in (int, str):
            object.__setattr__(self, "p", "inf" if self.p in ("inf", float("inf")) else int(self.p))
        if self.norm not in ("float32", "natural"):
            raise CodecError(f"{self.name}: norm={self.norm!r} must be 'float32' or 'natural'")

    @property
    def grain(self) -> int:
        return self.block

    @property
    def levels(self) -> int:
        """How many levels there are above 0."""
        return (1 << self.bits - 1) - 1

    def spread(self, n: int) -> float:
        """d^(1/r), r = min(p, 2): how much larger than |x| a block's norm of d values, or a sum, can be."""
        d = min(n, self.block)
        return float(d if self.p == 1 else d**0.5)

    def omega(self, n: int) -> float:
        """min(a, a^2), a = d^(1/r) / u for d values in a block; a natural norm multiplies 1 + omega by 9/8.

        Of float32 and float64. float16 and bfloat16 have larger steps, so that levels can be stored: where a > 1 it is
        up to 1 + 2^(bits-11) and 1 + 2^(bits-8) times as much."""
        a = self.spread(n) / self.levels
        return self.through_norm(min(a, a * a))

    def through_norm(self, omega: float) -> float:
        return (1 + omega) * 9 / 8 - 1 if self.norm == "natural" else omega

    def size(self, n: int, kind: str) -> int:
        norm = 8 if kind == "f64" else 4
        return blocks_size(n, self.bits, self.block, norm // 4 if self.norm == "natural" else norm)

    def tail(self) -> tuple[int, ...]:
        flags = NATURAL_LEVELS * self.natural_levels + NATURAL_NORM * (self.norm == "natural")
        return self.bits, 0 if self.p == "inf" else self.p, self.block, flags


def check_block(name: str, block: Any) -> None:
    if block not in range(64, MOST_BLOCK + 1, 64):
        raise CodecError(f"{name}: block={block!r} must be a multiple of 64, at most {MOST_BLOCK}")


@dataclass(frozen=True)
class Dithering(Dithered, name="dithering"):
    """Levels j/u of the p-norm of each block, u = 2^(bits-1) - 1, bits 2 to 8 with the sign (unbiased).

    norm="natural" sends the norm through natural compression: 1 byte a block instead of 4. correlated=True lets the
    rounding errors of different ranks cancel where their values are close.
    """

    bits: int = 4
    block: int = 512
    p: Union[int, str] = 2
    norm: str = "float32"
    correlated: bool = False  # type: ignore[misc]
