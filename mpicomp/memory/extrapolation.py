"""Extrapolation compression: the wires' errors are averaged away, if they are bounded in absolute terms."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np

from ..codecs.base import Codec, add, difference, multiply
from .replica import Replicas


class Extrapolation(Replicas):
    """Estimates of the neighbours' arrays, and of this rank's own as they have it. All start at zero.

    At step t = 1, 2, ... sent is C(z), z = x_t + (t/2) (x_{t+1} - x_t), and every estimate becomes (1 - 2/t) of itself
    plus 2/t of what came. The error's variance falls like 1/t if C's is bounded, which holds for an absolute grid but
    not for quantisers that scale with z: z grows with t.
    """

    name = "extrapolation"

    def __init__(self, rank: int, lengths: dict[int, int], kind: str, like: Any = None):
        super().__init__(rank, lengths, kind, like=like)
        self.last = np.zeros_like(self.replica)  # x_t

    def outgoing(self, x: Any, lo: int, hi: int) -> Any:
        last, t = self.last[lo:hi], self.step + 1
        z = difference(x, last)
        multiply(z, t / 2)
        add(z, last)
        last[:] = x
        return z

    def heard(self, source: int, codec: Codec, wire: Any, lo: int, hi: int) -> Any:
        estimate, t = self.estimates[source][lo:hi], self.step + 1
        multiply(estimate, 1 - 2 / t)
        codec.add_into(wire, estimate, self.kind, 2 / t)
        return estimate

    def arrays(self) -> Iterable[tuple[str, Any]]:
        return [*super().arrays(), ("last", self.last)]
