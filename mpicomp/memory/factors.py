"""Low-rank factors: the right ones of the last call are where the next one starts, and what they missed is remembered.

PowerSGD: M = x + e; P = sum of M Q, orthonormalised; Q = sum of M^T P; the result is P Q^T, and e = M - its mean. Repeated
on matrices that change slowly, Q turns towards their strongest directions. Costs: the right factors and, with feedback, an
array in the type of sums. What is not finite is not remembered, and bad factors are drawn anew.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Optional

import numpy as np

from ..arrays import KINDS, Flat, empty
from ..codecs.base import accumulate, as_kind, multiply
from ..codecs.lowrank import LowRank, Matrix, back, expand, orthonormalize, project, random_factor, widened
from ..codecs.raw import Raw
from ..job import SHARED, Pool, Randomness, Reduction
from ..reference.rng import stream_key
from .feedback import forget_infinite, zeros
from .state import State


class Item:
    """One array of a collective: how it is factored, how many numbers of it travel on each side, what is remembered."""

    def __init__(self, flat: Flat, codec: LowRank, feedback: bool):
        self.matrix: Optional[Matrix] = codec.matrix(flat.shape)
        self.sides = codec.sides(flat.shape)
        self.right = zeros(self.sides[1], flat.kind, flat.data)
        self.residual = zeros(flat.n, flat.kind, flat.data) if feedback and self.matrix else None
        self.left: Any = None
        self.values: Any = None


class Factors(State):
    """The right factors, zero before the first call, and the residuals of some arrays."""

    name = "lowrank"

    def __init__(self, x: Any, codec: LowRank, feedback: bool = False):
        self.codec = codec
        self.items = [Item(flat, codec, feedback) for flat in getattr(x, "flats", [x])]

    def job(self, *args: Any) -> Factoring:
        return Factoring(self, *args)

    def arrays(self) -> Iterable[tuple[str, Any]]:
        for k, item in enumerate(self.items):
            if item.matrix is not None:
                yield f"{k} right", item.right
            if item.residual is not None:
                yield f"{k} residual", item.residual


class Factoring:
    """out = scale * the sum of all ranks' x, by factors. What the schedule asks for, in this order: left, right, finish."""

    def __init__(
        self,
        memory: Factors,
        codec: LowRank,
        down: Any,
        x: Any,
        out: Any,
        scale: float,
        randomness: Randomness,
        pool: Pool,
    ):
        self.memory, self.codec, self.rank = memory, codec, codec.rank
        self.xs, self.outs = getattr(x, "flats", [x]), getattr(out, "flats", [out])
        self.x, self.kind = self.xs[0], x.kind
        self.scale, self.randomness, self.pool = scale, randomness, pool
        self.shared = stream_key(randomness.seed, randomness.call, 0, SHARED)
        self.sums: Any = None

    def left(self) -> Reduction:
        """The left factors of all matrices, and the arrays that travel whole: to be summed."""
        parts = []
        for k, (item, x) in enumerate(zip(self.memory.items, self.xs)):
            if item.matrix is None:
                parts.append(widened(x))
                continue
            self._direct(k, item, item.matrix.cols)
            item.values = self._values(item, x)
            parts.append(project(item.values, item.matrix, item.right, self.rank))
        return self._to_sum(parts)

    def right(self) -> Reduction:
        """The left factors are known: the right ones, to be summed."""
        parts = []
        for item, out, summed in self._summed(0):
            if item.matrix is None:
                multiply(summed, self.scale)
                out.data[:] = as_kind(summed, out.kind).data
                continue
            item.left = summed.copy()
            orthonormalize(item.left, item.matrix.rows, self.rank)
            parts.append(back(item.values, item.matrix, item.left, self.rank))
        return self._to_sum(parts)

    def finish(self) -> None:
        """All factors are known: the results, and what they missed."""
        for item, out, summed in self._summed(1):
            if item.matrix is None:
                continue
            item.right[:] = summed
            multiply(summed, self.scale)
            expand(item.left, summed, item.matrix, self.rank, out)
            if item.residual is not None:  # its values are x + e: their mean is what the result says
                accumulate(out, item.residual, -1.0 / (self.scale * self.randomness.size))
                forget_infinite(item.residual)
            item.left = item.values = None

    def copy(self) -> Iterator[Any]:
        """The whole collective where this rank is alone: exact."""
        for x, out in zip(self.xs, self.outs):
            if x is not out:
                out.data[:] = x.data
        yield ()

    def _direct(self, k: int, item: Item, cols: int) -> None:
        """The right factor to start with: the last one, orthonormal, with rows drawn anew that say nothing."""
        orthonormalize(item.right, cols, self.rank)
        rows = item.right.reshape(self.rank, cols)
        idle = [t for t, row in enumerate(rows) if not row.any() or not np.isfinite(row).all()]
        if idle:
            fresh = random_factor(item.right.size, self.xs[k], stream_key(self.shared, k)).reshape(rows.shape)
            for t in idle:
                rows[t] = fresh[t]
            orthonormalize(item.right, cols, self.rank)

    def _values(self, item: Item, x: Flat) -> Any:
        """What is factored: x, with what was missed before."""
        if item.residual is None:
            return widened(x)
        accumulate(x, item.residual, 1.0)
        return item.residual

    def _to_sum(self, parts: list[Any]) -> Reduction:
        """An exact sum over all ranks, in place."""
        kind = "f64" if KINDS[self.kind].accumulator.itemsize == 8 else "f32"
        self.sums = np.concatenate(parts) if parts else empty(0, KINDS[kind].storage, like=self.x.data)
        flat = Flat(self.sums, kind)
        return Reduction(Raw(), Raw(), flat, flat, 1.0, self.randomness, self.pool)

    def _summed(self, side: int) -> Iterator[tuple[Item, Flat, Any]]:
        """Each array, where its result goes, and what belongs to it in the sums."""
        at = 0
        for item, out in zip(self.memory.items, self.outs):
            yield item, out, self.sums[at : at + item.sides[side]]
            at += item.sides[side]
