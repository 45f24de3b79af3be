"""PowerGossip: the difference between two neighbours is averaged away one direction at a time."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import numpy as np

from ..arrays import Flat, beside, empty, is_cupy
from ..checks import finite
from ..exchange import rotated
from ..reference.rng import stream_key
from .base import Gossip

_BLOCK = 1 << 16  # values of a matrix that are updated at a time: stay in cache
_DRAW = 1 << 32  # stream_key's stage of the factors


class PowerGossip(Gossip):
    """Each edge {i, j} keeps low-rank factors P, Q of X_j - X_i, improved by one half of a power iteration at a time.

    An iteration sends X Q (or, every other time, X^T P) to each neighbour, all matrices in one message: rank * (rows, or
    columns) numbers a matrix. Both ends take w eta times the projection of their difference off it. Arrays of fewer than
    two dimensions travel exact, once a call. Needs no tuning; eta is the topology's diffusion_rate unless given. The mean
    over the ranks is kept. Arithmetic: 2 passes over the parameters an iteration.

    iterations: how many in a call. warm_start=False draws the factors anew in each iteration.
    """

    update_first = False

    def __init__(
        self,
        comm: Any,
        params: Any,
        rank: int = 1,
        iterations: int = 1,
        warm_start: bool = True,
        rate: Optional[float] = None,
        *,
        seed: Optional[int] = None,
    ):
        super().__init__(comm, params, "raw", seed=seed)
        if rank < 1 or iterations < 1:
            raise ValueError(f"rank={rank} and iterations={iterations} must be at least 1")
        self.factor_rank, self.iterations, self.warm_start = rank, iterations, warm_start
        self.rate = self.topology.diffusion_rate if rate is None else finite("rate", rate)
        self.dtype = np.dtype({"f32": "f4", "f64": "f8"}[self.kind])
        self.shapes = [_matrix(shape) for shape in self.layout.shapes]
        self.matrices = [k for k, shape in enumerate(self.shapes) if shape]
        self.vectors = [k for k, shape in enumerate(self.shapes) if not shape]
        self.ranks = [min(rank, *shape) for shape in self.shapes if shape]
        self.t = np.ones(1, np.int64)  # counts iterations, all ranks alike
        sides = [[shape[side] for shape in self.shapes if shape] for side in (0, 1)]
        # factors[side][k][e]: the rank * length numbers of edge e, row by row; side 0 is P, 1 is Q
        self.factors = [
            [
                empty((len(self.neighbors), r, length), self.dtype, self.layout.like)
                for r, length in zip(self.ranks, lengths)
            ]
            for lengths in sides
        ]
        self._draw_all()
        self._order = [self.neighbors.index(r) for r in rotated(self.neighbors, self.rank, self.topology.size)]

    def _forget(self) -> None:
        self.t[0] = 1
        self._draw_all()

    def _describe(self) -> str:
        return f"rank={self.factor_rank}, iterations={self.iterations}, warm_start={self.warm_start}, rate={self.rate}"

    def _arrays(self) -> dict[str, np.ndarray]:
        named = {f"{'PQ'[side]} {k}": x for side in (0, 1) for k, x in enumerate(self.factors[side])}
        return {"t": self.t, **named}

    def _prepare(self, port: Any, flats: list[Flat], changes: Optional[list[Flat]]) -> tuple[Any, Any]:
        same = self.layout.stored == self.kind
        vector = None if same else self.layout.vector(flats)  # halves are mixed in float32
        parts = [part.data for part in (flats if vector is None else self.layout.parts(vector))]
        matrices = [parts[k].reshape(self.shapes[k]) for k in self.matrices]
        vectors = [parts[k] for k in self.vectors]

        def lane(tag: int) -> Iterator[Any]:
            for iteration in range(self.iterations if matrices else 1):
                yield from self._iterate(port, tag, matrices, vectors if iteration == 0 else [])

        def finish() -> None:
            if vector is not None:
                self.layout.store(vector, flats)

        return ([lane] if self.neighbors else []), finish

    def _iterate(
        self, port: Any, tag: int, matrices: Sequence[np.ndarray], vectors: Sequence[np.ndarray]
    ) -> Iterator[Any]:
        """One half of a power iteration with every neighbour at once."""
        given = int(self.t[0]) % 2  # odd: Q is given and P is sought
        if not self.warm_start:
            self._draw(given, int(self.t[0]))
        for factor in self.factors[given]:
            orthonormalize(factor)
        self._comm._spend("reduce", self.layout.n * self.dtype.itemsize)
        products = [multiply(x if given else x.T, f) for x, f in zip(matrices, self.factors[given])]
        none = empty(0, self.dtype, self.layout.like)
        mine = [np.concatenate([*(p[e].ravel() for p in products), *vectors, none]) for e in range(len(self.neighbors))]
        theirs = [np.empty_like(message) for message in mine]
        arrivals = [port.irecv(theirs[e].view("u1"), self.neighbors[e], tag) for e in self._order]
        sends = [port.isend(mine[e].view("u1"), self.neighbors[e], tag) for e in self._order]
        self.bytes_sent += sum(message.nbytes for message in mine)
        yield arrivals

        for e, r in enumerate(self.neighbors):
            difference = (
                theirs[e] - mine[e] if r > self.rank else mine[e] - theirs[e]
            )  # of the larger rank to the smaller
            _split(difference, [f[e] for f in self.factors[1 - given]])
            self._add_vectors(vectors, difference, r)
        self._comm._spend("reduce", 2 * self.layout.n * self.dtype.itemsize)
        signs = [self.rate * self.weights[r] * (1 if r > self.rank else -1) for r in self.neighbors]
        for x, p, q in zip(matrices, *self.factors):
            add_products(x, p, q, beside(np.array(signs, self.dtype), x))
        self.t += 1
        yield sends

    def _add_vectors(self, vectors: Sequence[np.ndarray], difference: np.ndarray, neighbor: int) -> None:
        weight = self.rate * self.weights[neighbor] * (1 if neighbor > self.rank else -1)
        at = difference.size - sum(v.size for v in vectors)
        for v in vectors:
            v += weight * difference[at : at + v.size]
            at += v.size

    def _draw_all(self) -> None:
        for side in (0, 1):
            self._draw(side, -side)

    def _draw(self, side: int, t: int) -> None:
        """Factors from a generator that the two ends of an edge share."""
        for e, r in enumerate(self.neighbors):
            key = stream_key(self._number[0], min(r, self.rank), max(r, self.rank), _DRAW + t)
            generator = np.random.Generator(np.random.Philox(key))
            for factor in self.factors[side]:
                factor[e] = beside(generator.standard_normal(factor[e].shape, self.dtype), factor)


def multiply(x: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """x times each column of each edge's factor: (m x n), (edges x r x n) -> (edges x r x m). One pass over x."""
    edges, r, n = factor.shape
    return np.matmul(factor.reshape(edges * r, n), x.T).reshape(edges, r, x.shape[0])


def add_products(x: np.ndarray, p: np.ndarray, q: np.ndarray, weights: np.ndarray) -> None:
    """x += the sum over edges of weight * p^T q, in place, block by block."""
    edges, r, m = p.shape
    left = (p * weights[:, None, None]).reshape(edges * r, m).T.copy()
    right = q.reshape(edges * r, -1)
    rows = max(_BLOCK // max(x.shape[1], 1), 1)
    room = empty((min(rows, m), x.shape[1]), x.dtype, x)
    for lo in range(0, m, rows):
        block = x[lo : lo + rows]
        block += np.matmul(left[lo : lo + rows], right, out=room[: len(block)])


def orthonormalize(factor: Any) -> None:
    """The rows of each edge's factor, in place. Rows that depend on the others become some other direction.

    Always on the host, so that both ends of an edge get the same bits, whichever of them is on a GPU.
    """
    if is_cupy(factor):
        host = factor.get()
        orthonormalize(host)
        factor[:] = beside(host, factor)
        return
    for rows in factor:
        if len(rows) > 1:
            rows[:] = np.linalg.qr(rows.T)[0].T
            continue
        largest = np.abs(rows).max(initial=0)
        if largest == 0:  # the two ends agree already: any direction will do
            rows[:] = 1
        else:
            rows /= largest  # or the squares of small numbers would vanish
        rows /= np.sqrt(np.vdot(rows, rows))


def _split(values: np.ndarray, outs: Sequence[np.ndarray]) -> None:
    at = 0
    for out in outs:
        out[:] = values[at : at + out.size].reshape(out.shape)
        at += out.size


def _matrix(shape: Sequence[int]) -> tuple[int, ...]:
    """A tensor seen as shape[0] x rest; () for vectors, scalars and what is empty."""
    if len(shape) < 2 or 0 in shape:
        return ()
    return shape[0], int(np.prod(shape[1:], dtype=np.int64))
