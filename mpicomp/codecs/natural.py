"""natural: the sign and the exponent of each value, the exponent rounded up or down at random.

A value between two powers of two becomes one of them, with the probabilities that keep its expectation. The wire
has 9 bits for a float32 or bfloat16, 12 for a float64, 6 for a float16; `bits=8` keeps 7 bits of a float32's exponent,
in a window that ends at the largest value of each 512. docs/wire-format.md states every byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from ..errors import CodecError
from .blocked import Blocked

_WINDOW = 512  # values that share a base exponent with bits=8


@dataclass(frozen=True)
class Natural(Blocked, name="natural"):
    """Sign and exponent of each value, the exponent rounded up or down at random (unbiased, omega 1/8).

    rounding="nearest" rounds to the nearer power instead: biased, omega 1/9. correlated=True lets the rounding
    errors of different ranks cancel where their values are close.
    """

    bits: int = 9
    rounding: str = "stochastic"
    correlated: bool = False  # type: ignore[misc]

    def check(self) -> None:
        if self.bits not in (8, 9):
            raise CodecError(f"natural: bits={self.bits!r} must be 8 or 9")
        if self.rounding not in ("stochastic", "nearest"):
            raise CodecError(f"natural: rounding={self.rounding!r} must be 'stochastic' or 'nearest'")
        if self.correlated and self.rounding == "nearest":
            raise CodecError("natural: correlated=true needs stochastic rounding")

    @property
    def kinds(self) -> Sequence[str]:  # type: ignore[override]
        return ("f32",) if self.bits == 8 else ("f32", "f64", "f16", "bf16")

    @property
    def unbiased(self) -> bool:  # type: ignore[override]
        return self.rounding == "stochastic"

    @property
    def grain(self) -> int:
        return _WINDOW if self.bits == 8 else 64

    def omega(self, n: int) -> float:
        """For values from the smallest normal number up: 2^-14 in float16, 2^-126 in float32 and bfloat16, 2^-1022 in
        float64. Smaller ones become 0 or that number, which is as unbiased, but a larger error."""
        return 1 / 8 if self.unbiased else 1 / 9

    def size(self, n: int, kind: str) -> int:
        if self.bits == 8:
            return n + -(-n // _WINDOW)
        if kind == "f64":
            return n + (n + 1) // 2
        if kind == "f16":
            return (n + 1) // 2 + (n + 3) // 4
        return n + (n + 7) // 8

    @property
    def family(self) -> str:  # type: ignore[override]
        return "natural8" if self.bits == 8 else "natural"

    @property
    def nearest(self) -> int:  # type: ignore[override]
        return int(not self.unbiased)

    def tail(self) -> tuple[int, ...]:
        return ()
