"""Difference compression: what everybody knows of everybody's array, and only the change travels."""

from __future__ import annotations

from typing import Any, Iterable

from ..arrays import KINDS, zeros
from ..codecs.base import Codec, difference
from .state import State


class Replicas(State):
    """A copy of each neighbour's array, and of this rank's own as the neighbours have it. All start at zero.

    Sent is C(x - own copy); sender and receivers add the same wire to their copies, so these stay the same bits on all
    of them, whatever the codec does. What a wire loses is part of the next difference. Memory: one array of sums'
    type for each neighbour, and one more. A NaN or Inf that was sent stays in the copies until `reset`.
    """

    name = "difference"

    def __init__(self, rank: int, lengths: dict[int, int], kind: str, scale: float = 1.0, like: Any = None):
        self.rank, self.kind, self.scale = rank, kind, scale
        self.estimates = {r: zeros(n, KINDS[kind].storage, like) for r, n in lengths.items()}

    @property
    def replica(self) -> Any:
        """This rank's array as its neighbours know it."""
        return self.estimates[self.rank]

    def outgoing(self, x: Any, lo: int, hi: int) -> Any:
        """What is sent for a range of x."""
        return difference(x, self.replica[lo:hi])

    def heard(self, source: int, codec: Codec, wire: Any, lo: int, hi: int) -> Any:
        """Takes in a range of what `source` sent; the new estimate of it."""
        estimate = self.estimates[source][lo:hi]
        codec.add_into(wire, estimate, self.kind, self.scale)
        return estimate

    def arrays(self) -> Iterable[tuple[str, Any]]:
        return [(f"estimate {r}", estimate) for r, estimate in self.estimates.items()]
