"""DeepSqueeze: error feedback on the values themselves; no replicas."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..arrays import KINDS, zeros
from ..checks import finite
from ..codecs.base import add
from ..topology import exact
from .base import Gossip, contraction, safe_rate


class DeepSqueeze(Gossip):
    """v = x + update + e; sent is C(v); e <- v - C(v); x += gamma (sum_j W_ij C(v_j) - C(v_i)).

    Memory: two arrays, whatever the graph. The error of C(v) does not shrink with the differences between ranks, so they
    agree only up to gamma times it. C is the codec, scaled by 1 / (1 + omega) if it is unbiased; gamma is CHOCO's safe
    rate unless given. The mean over the ranks is kept.
    """

    def __init__(self, comm: Any, params: Any, codec: Any = None, *, gamma: Optional[float] = None, **settings: Any):
        super().__init__(comm, params, codec, **settings)
        self.gamma = safe_rate(self.topology, self.codec, self.layout.n) if gamma is None else finite("gamma", gamma)
        self._scale = contraction(self.codec, self.layout.n)[0]
        self._shares = exact(self.rank, self.weights, self.gamma * self._scale)
        self.error = zeros(self.layout.n, KINDS[self.kind].storage, self.layout.like)
        self._change = np.zeros_like(self.error)  # summed up first: terms cancel there, and x is rounded once

    def _describe(self) -> str:
        return f"codec={self.codec}, gamma={self.gamma}"

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"error": self.error}

    def _values(self, x: np.ndarray, lo: int, hi: int) -> np.ndarray:
        add(self.error[lo:hi], x[lo:hi])
        return self.error[lo:hi]

    def _take(self, x: np.ndarray, source: int, wire: Any, lo: int, hi: int) -> None:
        share = self._shares[source]
        if source == self.rank:
            self.codec.add_into(wire, self.error[lo:hi], self.kind, -self._scale)
            share -= 1
            self._change[lo:hi] = 0
        self.codec.add_into(wire, self._change[lo:hi], self.kind, share)

    def _close(self, x: np.ndarray, lo: int, hi: int) -> None:
        add(x[lo:hi], self._change[lo:hi])
