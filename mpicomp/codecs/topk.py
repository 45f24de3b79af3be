"""topk: the k values of largest magnitude of each block, and their indices."""

from __future__ import annotations

from dataclasses import dataclass

from .sparse import Sparse


@dataclass(frozen=True)
class TopK(Sparse, name="topk"):
    """The k largest of each block; biased, |C(x)-x|^2 <= (1 - k/block) |x|^2: for use with feedback.

    Linear time. Of equal magnitudes those at lower indices are kept. NaN and Inf count as largest; a block with more than
    k of them decodes to NaN.
    """

    def omega(self, n: int) -> float:
        return 1 - self.share(n)

    def tail(self, m: int, k: int) -> int:
        return -(-k * (m - 1).bit_length() // 8) + 1
