"""Error feedback: what an encoding loses is added to what is encoded next, so that in the long run nothing is lost.

Every rank remembers what its own encodings lost: of its contribution, and of the sums that it encodes for others. So
biased codecs (topk, sign) can be used both ways. Costs: two arrays in the type of sums, of which only the parts that a rank
encodes are ever touched; encoding takes two more passes, of float16 and bfloat16 four. What is not finite is not
remembered; what is, but is too large for its type, is sent in parts.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Optional, Sequence

import numpy as np

from .. import arrays
from ..arrays import KINDS, Flat, is_cupy
from ..codecs.base import Codec, Stream, accumulate, add, as_kind, multiply
from ..job import DOWN, PARTIAL, UP, Reduction
from .state import State

MOST = {"f16": 65504.0, "bf16": 2.0**127 * (2 - 2.0**-7)}  # largest finite numbers, where sums have larger ones
LARGE = 0.5  # omega of unbiased rounding from which decoded values are shrunk to contract


class ErrorFeedback(State):
    """The residuals of one array: `up` of contributions and partial sums, `down` of sums. All start at zero.

    A rank sends C(x + residual) and keeps what that differs from x + residual.
    """

    name = "feedback"

    def __init__(self, n: int, kind: str, like: Any = None):
        self.up, self.down = zeros(n, kind, like), zeros(n, kind, like)

    def job(self, *args: Any) -> Reduction:
        return Corrected(self, *args)

    def arrays(self) -> Iterable[tuple[str, Any]]:
        return [("up", self.up), ("down", self.down)]


class Remembering(Reduction):
    """A Reduction that knows what its wires say, and that may shrink it: a codec that rounds without bias,
    but coarsely, becomes a contraction by 1/(1+omega), and feedback needs one to be stable."""

    def __init__(self, memory: Any, codec: Codec, down: Codec, x: Flat, *args: Any):
        super().__init__(codec, down, x, *args)
        self.memory = memory
        self.weight, self.down_weight = shrinkage(codec, x.n), shrinkage(down, x.n)

    def total(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int] = None) -> None:
        self._store(lo, hi, self.sum(lo, hi, wires, position, self.scale))

    def among(self, rank: int, size: int) -> Reduction:
        randomness = self.randomness._replace(rank=rank, size=size)
        args = (self.codec, self.down, self.out, self.out, self.scale, randomness, self.pool, self.origin)
        return type(self)(self.memory, *args)

    def sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], scale: float) -> Any:
        """scale * the sum of the wires and, at `position` among them, this rank's own values; as a new array."""
        acc = zeros(hi - lo, self.kind, self.x.data)
        for index in range(len(wires) + 1):
            if index == position:
                accumulate(self.x[lo:hi], acc, 1.0)
            if index < len(wires):
                self.codec.add_into(wires[index], acc, self.kind, self.weight)
        multiply(acc, scale)
        return acc


class Corrected(Remembering):
    """A Reduction with error feedback."""

    def write_part(self, lo: int, hi: int, wire: Any) -> None:
        given = self.memory.up[lo:hi]
        accumulate(self.x[lo:hi], given, 1.0)
        self._send(self.codec, given, wire, self._at(UP, lo), self.weight)

    def write_partial(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        given = self.memory.up[lo:hi]
        add(given, self.sum(lo, hi, wires, position, 1.0))
        self._send(self.codec, given, wire, self._at(PARTIAL, lo), self.weight)

    def write_sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        given = self.memory.down[lo:hi]
        add(given, self.sum(lo, hi, wires, position, self.scale))
        self._send(self.down, given, wire, self._at(DOWN, lo), self.down_weight)

    def decode(self, wire: Any, lo: int, hi: int) -> None:
        if self.down_weight == 1.0:
            return super().decode(wire, lo, hi)
        acc = zeros(hi - lo, self.kind, self.x.data)
        self.down.add_into(wire, acc, self.kind, self.down_weight)
        self._store(lo, hi, acc)

    def _send(self, codec: Codec, given: Any, wire: Any, stream: Stream, weight: float) -> None:
        """Encode what is given, and leave in its place what the wire does not say."""
        codec.encode_into(storable(given, self.kind), wire, stream)
        codec.add_into(wire, given, self.kind, -weight)
        forget_infinite(given)


def shrinkage(codec: Codec, n: int) -> float:
    """What decoded values are multiplied with. Errors that are bounded in absolute terms need no shrinking."""
    noise = codec.noise(n)
    return 1.0 / (1.0 + noise) if LARGE <= noise < math.inf else 1.0


def storable(acc: Any, kind: str) -> Flat:
    """An accumulator rounded to its kind. Finite numbers stay finite: what the kind cannot hold is left for later."""
    most = MOST.get(kind, math.inf)
    if most == math.inf or (not is_cupy(acc) and -most <= acc.min(initial=0) and acc.max(initial=0) <= most):
        return as_kind(acc, kind)
    fitting, finite = acc.copy(), np.isfinite(acc)
    fitting[finite & (acc > most)] = most
    fitting[finite & (acc < -most)] = -most
    return as_kind(fitting, kind)


def zeros(n: int, kind: str, like: Any = None) -> Any:
    """Zeros in the type of sums, where `like` is. On the host they take no memory before they are written."""
    return arrays.zeros(n, KINDS[kind].accumulator, like)


def forget_infinite(residual: Any) -> None:
    """NaN and Inf were sent, and are no error to be corrected later."""
    if is_cupy(residual) or not np.isfinite(residual.sum()):  # a GPU would be waited for
        residual[~np.isfinite(residual)] = 0
