"""Difference compression: what everybody knows of everybody's array, and only the change travels."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np

from ..codecs.base import Codec


class Replicas:
    """A copy of each neighbour's array, and of this rank's own as the neighbours have it. All start at zero.

    Sent is C(x - own copy); sender and receivers add the same wire to their copies, so these stay the same bits on all
    of them, whatever the codec does. What a wire loses is part of the next difference. Memory: one array of sums'
    type for each neighbour, and one more. A NaN or Inf that was sent stays in the copies until `reset`.
    """

    name = "difference"

    def __init__(self, rank: int, lengths: dict[int, int], kind: str, scale: float = 1.0):
        self.rank, self.kind, self.scale = rank, kind, scale
        self.estimates = {r: np.zeros(n, {"f32": "f4", "f64": "f8"}[kind]) for r, n in lengths.items()}
        self.step = 0

    @property
    def replica(self) -> Any:
        """This rank's array as its neighbours know it."""
        return self.estimates[self.rank]

    def outgoing(self, x: Any, lo: int, hi: int) -> Any:
        """What is sent for a range of x."""
        return x - self.replica[lo:hi]

    def heard(self, source: int, codec: Codec, wire: Any, lo: int, hi: int) -> Any:
        """Takes in a range of what `source` sent; the new estimate of it."""
        estimate = self.estimates[source][lo:hi]
        codec.add_into(wire, estimate, self.kind, self.scale)
        return estimate

    def advance(self) -> None:
        """Everything of this call was heard."""
        self.step += 1

    def arrays(self) -> Iterable[tuple[str, Any]]:
        """What is saved, by name."""
        return [(f"estimate {r}", estimate) for r, estimate in self.estimates.items()]

    def reset(self) -> None:
        """Forget everything; every rank must."""
        self.step = 0
        for _, array in self.arrays():
            array[:] = 0

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that is remembered: save each rank's own, and restore all of them."""
        return {"step": self.step, **{name: array.copy() for name, array in self.arrays()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        mine = dict(self.arrays())
        if set(state) != {"step", *mine} or any(np.shape(state[name]) != mine[name].shape for name in mine):
            raise ValueError(f"this state is of another collective: it has {sorted(state)}, expected {sorted(mine)}")
        self.step = int(state["step"])
        for name, array in mine.items():
            array[:] = state[name]
