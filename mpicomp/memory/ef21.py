"""EF21: every rank tells how its array differs from what the others know of it, and so does the owner of a sum.

What is known only ever moves towards what is meant, so with a contracting codec and arrays that settle the result becomes
exact. A difference that is too large for its type is sent in parts. Costs: three arrays in the type of sums. A NaN or Inf
that was sent stays until `reset`.
"""

from __future__ import annotations

from typing import Any, Iterable, Optional, Sequence

from ..codecs.base import accumulate, add, multiply, subtract
from ..job import DOWN, UP, Reduction
from .feedback import Remembering, storable, zeros
from .state import State


class EF21(State):
    """`known`: this rank's array as the owners know it; `others`: at an owner, the sum of what it knows of the others;
    `result`: the sum as all ranks know it. All start at zero."""

    name = "ef21"

    def __init__(self, n: int, kind: str, like: Any = None):
        self.known, self.others, self.result = (zeros(n, kind, like) for _ in range(3))

    def job(self, *args: Any) -> Reduction:
        return Differences(self, *args)

    def arrays(self) -> Iterable[tuple[str, Any]]:
        return [("known", self.known), ("others", self.others), ("result", self.result)]


class Differences(Remembering):
    """A Reduction whose wires hold differences. For schedules in which the owner of a sum decodes what it sends."""

    def write_part(self, lo: int, hi: int, wire: Any) -> None:
        known = self.memory.known[lo:hi]
        change = known.copy()
        multiply(change, -1.0)
        accumulate(self.x[lo:hi], change, 1.0)
        self.codec.encode_into(storable(change, self.kind), wire, self._at(UP, lo))
        self.codec.add_into(wire, known, self.kind, self.weight)

    def write_sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        others = self.memory.others[lo:hi]
        add(others, self.sum(lo, hi, wires, None, 1.0))
        change = others.copy()
        if position is not None:
            accumulate(self.x[lo:hi], change, 1.0)
        multiply(change, self.scale)
        subtract(change, self.memory.result[lo:hi])
        self.down.encode_into(storable(change, self.kind), wire, self._at(DOWN, lo))

    def decode(self, wire: Any, lo: int, hi: int) -> None:
        result = self.memory.result[lo:hi]
        self.down.add_into(wire, result, self.kind, self.down_weight)
        self._store(lo, hi, result)
