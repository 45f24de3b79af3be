"""DCD-PSGD: the difference to a replica is compressed."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..codecs.base import add
from ..memory.replica import Replicas
from .base import Gossip


class DCD(Gossip):
    """z = sum_j W_ij xh_j + update - x_i; x_i <- x_i + C(z), and so do its replicas xh_i at the neighbours.

    The sender applies what it sent, so that the replica is x_i itself, bit for bit. The first call sends the values
    uncompressed, for replicas to start from. Needs an unbiased codec of small relative error, or it diverges:
    about 4 bits on a ring of 8. The mean is kept but for C's (unbiased) error. Memory: x for each neighbour, and one more.
    """

    exact_start = True

    def __init__(self, comm: Any, params: Any, codec: Any = None, *, seed: Optional[int] = None, **settings: Any):
        super().__init__(comm, params, codec, seed=seed, **settings)
        lengths = dict.fromkeys((*self.neighbors, self.rank), self.layout.n)
        self.memory = self._memory(lengths)

    def _memory(self, lengths: dict[int, int]) -> Replicas:
        return Replicas(self.rank, lengths, self.kind, like=self.layout.like)

    def _arrays(self) -> dict[str, np.ndarray]:
        return dict(self.memory.arrays())

    def _begun(self, source: int, values: np.ndarray, lo: int, hi: int) -> None:
        self.memory.estimates[source][lo:hi] = values

    def _values(self, x: np.ndarray, lo: int, hi: int) -> np.ndarray:
        z = self._pull(self.memory.estimates, lo, hi)
        add(z, self.memory.outgoing(x[lo:hi], lo, hi))  # what the user changed since, as the update
        return z

    def _take(self, x: np.ndarray, source: int, wire: Any, lo: int, hi: int) -> None:
        estimate = self.memory.heard(source, self.codec, wire, lo, hi)
        if source == self.rank:
            x[lo:hi] = estimate
