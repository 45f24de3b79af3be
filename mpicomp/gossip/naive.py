"""Averaging of compressed values: what does not work."""

from __future__ import annotations

from typing import Any, Optional

from .base import Gossip
from .dpsgd import DPSGD


class Naive(DPSGD):
    """D-PSGD with the neighbours' values compressed: x_i <- W_ii x_i + sum_j W_ij C(x_j). Kept to show that it fails.

    C's error is that of x itself, not of a difference that shrinks: it comes anew in each step and never ends. The mean is
    kept only on average.
    """

    def __init__(
        self, comm: Any, params: Any, codec: Any = None, *, seed: Optional[int] = None, segment: Optional[int] = None
    ):
        Gossip.__init__(self, comm, params, codec, seed=seed, segment=segment)
        self._shares = self.weights

    def _describe(self) -> str:
        return f"codec={self.codec}"
