"""ECD-PSGD: an extrapolation is compressed, and the errors are averaged away."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..codecs.base import add, difference
from ..memory.extrapolation import Extrapolation
from .dcd import DCD


class ECD(DCD):
    """x_{t+1} = sum_j W_ij xt_j + update; sent is C(x_t + (t/2)(x_{t+1} - x_t)), from which all get xt_{t+1}.

    The variance of C must be bounded in absolute terms, as a fixed grid's is (`grid:step=0.01,bits=8`). Codecs whose error
    grows with the values' norm fail at few bits, since what is sent grows with t: those bring a warning.
    """

    memory: Extrapolation

    def __init__(self, comm: Any, params: Any, codec: Any = None, **settings: Any):
        super().__init__(comm, params, codec, **settings)
        if not (self.codec.bounded or self.codec.omega(self.layout.n) == 0):
            warnings.warn(
                f"ECD with codec {str(self.codec)!r}: its error grows with what is sent, which grows with every step, so that "
                "few bits diverge; 'grid:step=...,bits=...' has bounded errors, and Choco takes any codec",
                RuntimeWarning,
                stacklevel=2,
            )

    def _memory(self, lengths: dict[int, int]) -> Extrapolation:
        return Extrapolation(self.rank, lengths, self.kind, like=self.layout.like)

    def _begun(self, source: int, values: np.ndarray, lo: int, hi: int) -> None:
        super()._begun(source, values, lo, hi)
        if source == self.rank:
            self.memory.last[lo:hi] = values

    def _values(self, x: np.ndarray, lo: int, hi: int) -> np.ndarray:
        self.memory.step = self.calls
        new = difference(x[lo:hi], self.memory.last[lo:hi])  # the update
        add(new, self.memory.replica[lo:hi])
        add(new, self._pull(self.memory.estimates, lo, hi))
        x[lo:hi] = new
        return self.memory.outgoing(new, lo, hi)

    def _take(self, x: np.ndarray, source: int, wire: Any, lo: int, hi: int) -> None:
        self.memory.heard(source, self.codec, wire, lo, hi)
