"""CHOCO-SGD: consensus by compressed differences, for every compressor."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..checks import finite
from ..codecs.base import add, multiply
from ..memory.replica import Replicas
from .base import Gossip, contraction, safe_rate


class Choco(Gossip):
    """x_i <- x_i + update + gamma sum_j W_ij (xh_j - xh_i); then q_i = Q(x_i - xh_i) is sent, and all add it to xh_i.

    Q is the codec, scaled by 1 / (1 + omega) if it is unbiased. Works with biased and coarse codecs. gamma is the proven
    safe rate unless given; it is small, and ten times as much is often better. All xh start at 0, so the first call
    moves nothing yet. The mean over the ranks is kept. Memory: x for each neighbour, and one more.
    """

    def __init__(self, comm: Any, params: Any, codec: Any = None, *, gamma: Optional[float] = None, **settings: Any):
        super().__init__(comm, params, codec, **settings)
        n = self.layout.n
        self.gamma = safe_rate(self.topology, self.codec, n) if gamma is None else finite("gamma", gamma)
        self.memory = Replicas(
            self.rank,
            dict.fromkeys((*self.neighbors, self.rank), n),
            self.kind,
            contraction(self.codec, n)[0],
            self.layout.like,
        )

    def _describe(self) -> str:
        return f"codec={self.codec}, gamma={self.gamma}"

    def _arrays(self) -> dict[str, np.ndarray]:
        return dict(self.memory.arrays())

    def _values(self, x: np.ndarray, lo: int, hi: int) -> np.ndarray:
        pull = self._pull(self.memory.estimates, lo, hi)
        multiply(pull, self.gamma)
        add(x[lo:hi], pull)
        return self.memory.outgoing(x[lo:hi], lo, hi)

    def _take(self, x: np.ndarray, source: int, wire: Any, lo: int, hi: int) -> None:
        self.memory.heard(source, self.codec, wire, lo, hi)
