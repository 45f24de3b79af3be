"""natural-dithering: each value as 0 or a power of two times its block's norm, up or down at random.

The levels are 1, 1/2, ..., 2^(1-s) and 0 with s = 2^(bits-1) - 1: few bits reach far down, and the error of values
above the lowest level is that of natural compression. docs/wire-format.md states every byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from .dithering import Dithered


@dataclass(frozen=True)
class NaturalDithering(Dithered, name="natural-dithering"):
    """Levels 2^-k and 0 of the p-norm of each block, as many as fit into 2 to 8 bits with the sign (unbiased).

    norm="natural" sends the norm through natural compression: 1 byte a block instead of 4. correlated=True lets the
    rounding errors of different ranks cancel where their values are close.
    """

    natural_levels = True

    bits: int = 4
    block: int = 512
    p: Union[int, str] = 2
    norm: str = "float32"
    correlated: bool = False  # type: ignore[misc]

    def omega(self, n: int) -> float:
        """1/8 + min(a, a^2), a = d^(1/r) 2^(1-s) for d values in a block; a natural norm multiplies 1 + omega by 9/8."""
        a = self.spread(n) * 2.0 ** (1 - self.levels)
        return self.through_norm(1 / 8 + min(a, a * a))
