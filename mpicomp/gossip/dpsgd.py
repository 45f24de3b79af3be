"""D-PSGD: plain averaging with the neighbours."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..checks import finite
from ..codecs.base import multiply
from ..topology import exact
from .base import Gossip


class DPSGD(Gossip):
    """x_i <- sum_j W_ij x_j, then the local update. Uncompressed: bytes are those of x for each neighbour.

    `rate` other than 1 makes it x_i + rate * sum_j W_ij (x_j - x_i); topology.diffusion_rate is the fastest. The mean
    over the ranks is kept.
    """

    update_first = False

    def __init__(self, comm: Any, params: Any, *, rate: float = 1.0, segment: Optional[int] = None):
        super().__init__(comm, params, "raw", segment=segment)
        self.rate = finite("rate", rate)
        self._shares = exact(self.rank, self.weights, rate)

    def _describe(self) -> str:
        return f"rate={self.rate}"

    def _values(self, x: np.ndarray, lo: int, hi: int) -> np.ndarray:
        return x[lo:hi]

    def _take(self, x: np.ndarray, source: int, wire: Any, lo: int, hi: int) -> None:
        if source == self.rank:
            multiply(x[lo:hi], self._shares[source])
        else:
            self.codec.add_into(wire, x[lo:hi], self.kind, self._shares[source])
