"""sign: one bit a value, and for each block the mean of its absolute values. For use with feedback.

docs/wire-format.md states every byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from .blocked import Blocked, blocks_size
from .dithering import check_block


@dataclass(frozen=True)
class Sign(Blocked, name="sign"):
    """sign(x) mean|x| in each block, zero as positive: biased, |C(x) - x|^2 <= (1 - 1/d) |x|^2 for d values a block."""

    family = "sign"

    block: int = 4096

    def check(self) -> None:
        check_block(self.name, self.block)

    @property
    def grain(self) -> int:
        return self.block

    def omega(self, n: int) -> float:
        """1 - 1/d: the worst is a block with one value; on Gaussian data it is 1 - 2/pi."""
        return 1 - 1 / max(min(n, self.block), 1)

    def size(self, n: int, kind: str) -> int:
        return blocks_size(n, 1, self.block, 8 if kind == "f64" else 4)

    def tail(self) -> tuple[int, ...]:
        return (self.block,)
