"""Graphs of ranks, their mixing weights and spectra. No MPI here: communicators on these graphs are in topocomm.py.

A mixing matrix W is symmetric and doubly stochastic: x <- W x averages every rank with its neighbours and keeps the mean.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from itertools import product
from operator import index
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from .errors import Error

Row = Tuple[Optional[int], ...]  # a rank's neighbours in MPI's order; None where a grid ends


class TopologyError(Error, ValueError):
    """A graph or a mixing matrix on which averaging is not possible."""


class Topology:
    """A connected undirected graph with mixing weights.

    `rows[r]` are r's neighbours in the order in which MPI's neighbour collectives deliver them (with repetitions where a
    ring has 2 ranks, None where a grid ends), `neighbors[r]` the others among them, once each, `weights[r]` maps
    these, and r itself, to W's entries. weights= is "metropolis" (Metropolis-Hastings: 1 / (1 + the larger degree)),
    "uniform" (1 / (1 + the largest degree of all)) or a matrix, which is checked.
    """

    def __init__(self, rows: Sequence[Sequence[Optional[int]]], weights: Any = "metropolis"):
        self.rows: list[Row] = [tuple(row) for row in rows]
        self.size = len(self.rows)
        if not self.rows:
            raise TopologyError("a graph needs at least one rank")
        self.neighbors = [tuple(sorted({q for q in row if q is not None} - {r})) for r, row in enumerate(self.rows)]
        self._check_graph()
        self.weights = self._weights("metropolis" if weights is None else weights)

    @cached_property
    def matrix(self) -> np.ndarray:
        """W, dense."""
        matrix = np.zeros((self.size, self.size))
        for rank, row in enumerate(self.weights):
            for other, weight in row.items():
                matrix[rank, other] = weight
        return matrix

    @cached_property
    def fingerprint(self) -> str:
        """The same on ranks whose graphs and weights are."""
        return blake2b(repr((self.rows, self.weights)).encode(), digest_size=6).hexdigest()

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """Those of W, the largest (which is 1) first. Costs p^3."""
        return np.linalg.eigvalsh(self.matrix)[::-1]

    @property
    def spectral_gap(self) -> float:
        """1 - the second largest modulus of W's eigenvalues: x <- W x brings x nearer to its mean by 1 - gap or better."""
        return float(1 - np.abs(self.eigenvalues[1:]).max(initial=0.0))

    @property
    def diffusion_rate(self) -> float:
        """The eta for which x <- x - eta (I - W) x reaches the mean fastest: 2 / (least + largest non-zero eigenvalue)."""
        if self.size == 1:
            return 1.0
        return portable(2 / (2 - self.eigenvalues[1] - self.eigenvalues[-1]))

    @property
    def roughness(self) -> float:
        """The norm of I - W."""
        return float(1 - self.eigenvalues[-1])

    def __repr__(self) -> str:
        return f"<Topology of {self.size} ranks, {sum(map(len, self.neighbors)) // 2} edges>"

    def _check_graph(self) -> None:
        for rank, others in enumerate(self.neighbors):
            for other in others:
                if not 0 <= other < self.size:
                    raise TopologyError(f"rank {rank} has a neighbour {other}; ranks are 0..{self.size - 1}")
                if rank not in self.neighbors[other]:
                    raise TopologyError(
                        f"rank {rank} sees rank {other} but not the other way round: averaging needs both directions"
                    )
        _check_connected(self.neighbors, "the graph")

    def _weights(self, given: Any) -> list[dict[int, float]]:
        degrees = [len(others) for others in self.neighbors]
        if isinstance(given, str):
            if given not in ("metropolis", "uniform"):
                raise TopologyError(f"weights={given!r} must be 'metropolis', 'uniform' or a matrix")
            most = max(degrees, default=0)
            rows = [
                {q: 1 / (1 + (most if given == "uniform" else max(degrees[r], degrees[q]))) for q in others}
                for r, others in enumerate(self.neighbors)
            ]
        else:
            matrix = self._check_matrix(np.asarray(given, float))
            rows = [{q: float(matrix[r, q]) for q in others} for r, others in enumerate(self.neighbors)]
        return [exact(rank, row) for rank, row in enumerate(rows)]

    def _check_matrix(self, matrix: np.ndarray) -> np.ndarray:
        p = self.size
        if matrix.shape != (p, p):
            raise TopologyError(f"weights must be a {p} x {p} matrix, not {matrix.shape}")
        if not np.all(matrix >= 0):
            raise TopologyError("weights must not be negative or NaN")
        if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-9):
            raise TopologyError("weights must be symmetric")
        if not np.allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-9):
            raise TopologyError(f"weights must sum to 1 in each row; the sums are {matrix.sum(axis=1)}")
        for rank, row in enumerate(matrix):
            strangers = set(map(int, np.flatnonzero(row))) - set(self.neighbors[rank]) - {rank}
            if strangers:
                raise TopologyError(f"weights join rank {rank} and {sorted(strangers)}, which are no neighbours")
        used = [tuple(map(int, np.flatnonzero(np.rint(row * 2**24)))) for row in matrix]  # as `exact` takes them
        _check_connected(used, "the graph of the weights of 2^-24 and more")
        return matrix


def exact(rank: int, others: dict[int, float], rate: float = 1.0) -> dict[int, float]:
    """rate * the weights of a rank's neighbours as multiples of 2^-24, and its own weight: the rest to 1.

    So they are exact in float32 too, and sum to exactly 1: otherwise thousands of steps would scale the mean.
    """
    row = {q: round(rate * w * 2**24) / 2**24 for q, w in others.items() if q != rank}
    return {rank: 1 - sum(row.values()), **row}


def portable(rate: float) -> float:
    """Nine digits: the last bits of eigenvalues differ from one type of processor to another."""
    return float(f"{rate:.9g}")


def _check_connected(neighbors: Sequence[Sequence[int]], what: str) -> None:
    seen, todo = {0}, [0]
    while todo:
        new = set(neighbors[todo.pop()]) - seen
        seen |= new
        todo += new
    if len(seen) < len(neighbors):
        lost = sorted(set(range(len(neighbors))) - seen)
        raise TopologyError(f"{what} is not connected: no way from rank 0 to {lost[:8]}")


def cart(dims: Sequence[int], periods: Sequence[bool], weights: Any = "metropolis") -> Topology:
    """A grid in MPI's order: ranks row by row, for each dimension the neighbour below, then the one above."""
    if any(size < 1 for size in dims):
        raise TopologyError(f"dims={list(dims)} must be at least 1")
    strides = [int(np.prod(dims[d + 1 :], dtype=np.int64)) for d in range(len(dims))]

    def neighbor(place: Sequence[int], rank: int, d: int, by: int) -> Optional[int]:
        there = place[d] + by
        if not periods[d] and not 0 <= there < dims[d]:
            return None
        return rank + (there % dims[d] - place[d]) * strides[d]

    places = product(*map(range, dims))
    return Topology(
        [[neighbor(place, r, d, by) for d in range(len(dims)) for by in (-1, 1)] for r, place in enumerate(places)],
        weights,
    )


def ring(p: int, weights: Any = "metropolis") -> Topology:
    """Each rank with the one before and the one after it. W is 1/3 each (p > 2)."""
    return cart([p], [True], weights)


def torus(dims: Sequence[int], weights: Any = "metropolis") -> Topology:
    """A grid of any dimensions whose ends are joined."""
    return cart(dims, [True] * len(dims), weights)


def grid(dims: Sequence[int], weights: Any = "metropolis") -> Topology:
    """A grid of any dimensions."""
    return cart(dims, [False] * len(dims), weights)


def hypercube(p: int, weights: Any = "metropolis") -> Topology:
    """Ranks whose numbers differ in one bit; p is a power of two."""
    if p < 1 or p & (p - 1):
        raise TopologyError(f"a hypercube needs a power of two of ranks, not {p}")
    return Topology([[r ^ 1 << bit for bit in range(p.bit_length() - 1)] for r in range(p)], weights)


def exponential(p: int, weights: Any = "metropolis") -> Topology:
    """Ranks 1, 2, 4, 8, ... before and after: about 2 log2 p neighbours, a gap of order 1 / log p."""
    hops = [1 << k for k in range(p.bit_length()) if 1 << k < p]
    return _sorted([{(r + hop) % p for hop in hops} | {(r - hop) % p for hop in hops} for r in range(p)], weights)


def complete(p: int, weights: Any = "metropolis") -> Topology:
    """Everybody with everybody: one step is the mean."""
    return _sorted([set(range(p)) for _ in range(p)], weights)


def star(p: int, weights: Any = "metropolis") -> Topology:
    """Rank 0 with everybody."""
    return _sorted([set(range(p))] * min(p, 1) + [{0}] * (p - 1), weights)


def graph(g: Any, weights: Any = "metropolis") -> Topology:
    """From a networkx graph on 0..p-1, an adjacency matrix (non-zero: an edge), or a list or dict of neighbour lists.

    p lists of p numbers are a matrix: nobody has p others. A dict is always of neighbours, so it may name ranks themselves.
    """
    return _sorted(adjacency(g), weights)


def adjacency(g: Any) -> list[set[int]]:
    """The neighbours of each rank. Loops are dropped; directed edges are kept as they are (and refused later)."""
    if hasattr(g, "adjacency") and hasattr(g, "nodes"):
        g = {node: list(others) for node, others in g.adjacency()}
    if isinstance(g, dict):
        if set(g) != set(range(len(g))):
            raise TopologyError(f"the nodes of the graph must be the ranks 0..{len(g) - 1}")
        return [set(map(index, g[r])) for r in range(len(g))]
    if isinstance(g, (list, tuple)) and not _square(g):
        return [set(map(index, others)) for others in g]
    matrix = np.asarray(g.todense() if hasattr(g, "todense") else g)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TopologyError(f"an adjacency matrix must be square, not {matrix.shape}")
    if np.any(matrix != matrix):
        raise TopologyError("an adjacency matrix must not hold NaN")
    return [set(map(int, np.flatnonzero(row))) for row in matrix]


def _square(g: Any) -> bool:
    """Whether nested lists are a matrix, not lists of neighbours."""
    return bool(g) and all(len(row) == len(g) for row in g)


def _sorted(neighbors: Sequence[set[int]], weights: Any) -> Topology:
    return Topology([sorted(others - {r}) for r, others in enumerate(neighbors)], weights)
