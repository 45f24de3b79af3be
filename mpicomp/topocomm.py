"""Communicators on graphs: MPI's Cartcomm and Distgraphcomm whose neighbour collectives travel compressed.

`ring`, `torus`, ... make one from any communicator (collective); `Cartcomm(cart)` and `Distgraphcomm(dist)` refine one
that is there.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import numpy as np
from mpi4py import MPI

from . import agreement, arrays, topology
from .collectives import neighbor
from .collectives.base import meet, telling
from .comm import Comm
from .engine import wait
from .functional import compressed
from .ports.mpi import MPIPort, kept, port_of
from .request import Request
from .topology import Topology, TopologyError
from .watching import Watch, WatchedJob, WatchedPort


class Neighborhood:
    """What a compressing Cartcomm and Distgraphcomm have in common. `weights` as in topology.Topology."""

    _weights: Any
    _mixing: Optional[Topology]

    def __new__(
        cls,
        comm: Optional[MPI.Comm] = None,
        codec: Any = None,
        *,
        weights: Any = None,
        algorithm: Optional[str] = None,
        seed: Optional[int] = None,
        segment: Optional[int] = None,
    ) -> Any:
        self: Any = Comm.__new__(cls, comm, codec, algorithm=algorithm, seed=seed, segment=segment)  # type: ignore
        inherited = isinstance(comm, Neighborhood) and weights is None
        self._weights = comm._weights if inherited else "metropolis" if weights is None else weights  # type: ignore
        self._mixing = comm._mixing if inherited else None  # type: ignore
        return self

    # The graph

    @property
    def mixing(self) -> Topology:
        """The graph with its mixing weights. On a Distgraphcomm the first use is collective."""
        if self._mixing is None:
            self._mixing = self._topology()
        return self._mixing

    @property
    def spectral_gap(self) -> float:
        return self.mixing.spectral_gap

    @property
    def diffusion_rate(self) -> float:
        return self.mixing.diffusion_rate

    def _topology(self) -> Topology:
        raise NotImplementedError

    def _graph(self) -> Any:
        """What `mixing` needs to know of the other ranks. Collective where it is not known yet."""

    def _copied(self: Any, comm: Any) -> Any:
        kept = self._keep(comm)
        kept._weights, kept._mixing = self._weights, self._mixing
        return kept

    def _sources(self) -> list[Optional[int]]:
        """Whose arrays come, in MPI's order; None for PROC_NULL."""
        raise NotImplementedError

    def _destinations(self) -> list[Optional[int]]:
        raise NotImplementedError

    # What gossip methods ask of a communicator, here and in the simulator

    def _port(self: Any) -> MPIPort:
        return port_of(self)

    def _agreement(self, port: MPIPort, signature: str) -> tuple[int, Iterator[Any]]:
        """(digest, the check that all ranks call the same)."""
        digest = agreement.digest(signature)
        return digest, agreement.agree(port, signature, digest)

    def _watch(self: Any, name: str, x: Any, codec: Any) -> Optional[Watch]:
        """Count an averaging step; with times, what watches it."""
        return self.stats.note(name, x, "direct", codec)

    def _timed(self, job: Any, port: Any) -> Any:
        return WatchedJob(job, port.watch) if isinstance(port, WatchedPort) else job

    def _spend(self, work: str, nbytes: int) -> None:
        """Real time passes by itself."""

    # Neighbour collectives

    def Neighbor_allgather(self: Any, sendbuf: Any, recvbuf: Any, **settings: Any) -> None:
        """Every neighbour's array into its row of recvbuf. Settings (codec, algorithm, seed, segment) for this call only.

        Bytes sent: the encoded array to each neighbour. Rows of PROC_NULL stay as they are.
        """
        neighbor.blocking(self, "Neighbor_allgather", sendbuf, recvbuf, settings)

    def Neighbor_allgatherv(self: Any, sendbuf: Any, recvbuf: Any, **settings: Any) -> None:
        """As Neighbor_allgather, with arrays of different lengths: recvbuf is [data, counts] or [data, counts, displs, type]."""
        neighbor.blocking(self, "Neighbor_allgatherv", sendbuf, recvbuf, settings)

    def Ineighbor_allgather(self: Any, sendbuf: Any, recvbuf: Any, **settings: Any) -> Any:
        """As Neighbor_allgather, without waiting."""
        return neighbor.nonblocking(self, "Neighbor_allgather", sendbuf, recvbuf, settings)

    def Ineighbor_allgatherv(self: Any, sendbuf: Any, recvbuf: Any, **settings: Any) -> Any:
        """As Neighbor_allgatherv, without waiting."""
        return neighbor.nonblocking(self, "Neighbor_allgatherv", sendbuf, recvbuf, settings)

    def Neighbor_allgather_init(
        self: Any,
        sendbuf: Any,
        recvbuf: Any,
        info: MPI.Info = MPI.INFO_NULL,
        memory: Optional[str] = None,
        **settings: Any,
    ) -> Any:
        """As Neighbor_allgather, to be started again and again.

        memory="difference": only the change since the last start is encoded, and rows are replicas, equal bit for bit to
        `req.replica` of their owner. memory="extrapolation": rows are ECD's estimates. Both send at any size.
        """
        return neighbor.persistent(self, "Neighbor_allgather", sendbuf, recvbuf, info, memory, settings)

    def Neighbor_allgatherv_init(
        self: Any,
        sendbuf: Any,
        recvbuf: Any,
        info: MPI.Info = MPI.INFO_NULL,
        memory: Optional[str] = None,
        **settings: Any,
    ) -> Any:
        """As Neighbor_allgather_init, with arrays of different lengths."""
        return neighbor.persistent(self, "Neighbor_allgatherv", sendbuf, recvbuf, info, memory, settings)

    def neighbor_allreduce(
        self: Any, x: Any, weights: Any = None, codec: Any = None, seed: Optional[int] = None, **settings: Any
    ) -> Any:
        """The weighted sum of x, exact, and the neighbours' arrays, encoded, as a new array like x.

        weights: this rank's row of the mixing matrix unless given, as {rank: weight} or one number for each rank.
        """
        out = arrays.empty_like(x)
        wait(neighbor.average(self, x, out, weights, dict(settings, codec=codec, seed=seed)))
        return out

    def Ineighbor_allreduce(self: Any, x: Any, out: Any, weights: Any = None, **settings: Any) -> Request:
        """neighbor_allreduce into `out`, without waiting."""
        return Request(neighbor.average(self, x, out, weights, settings))


class Cartcomm(Neighborhood, MPI.Cartcomm, Comm):  # type: ignore[misc]
    """An MPI.Cartcomm on the same handle as `comm`, which compresses."""

    _handle = MPI.Cartcomm

    def _topology(self) -> Topology:
        dims, periods, _ = self.Get_topo()
        return topology.cart(dims, [bool(each) for each in periods], self._weights)

    def _sources(self) -> list[Optional[int]]:
        ends = [rank for d in range(self.Get_dim()) for rank in self.Shift(d, 1)]
        return [None if rank == MPI.PROC_NULL else rank for rank in ends]

    _destinations = _sources

    def Sub(self, remain_dims: Sequence[bool]) -> Any:
        kept = self._keep(super().Sub(remain_dims))
        if isinstance(self._weights, str):  # a matrix is of this grid alone
            kept._weights = self._weights
        return kept


class Distgraphcomm(Neighborhood, MPI.Distgraphcomm, Comm):  # type: ignore[misc]
    """An MPI.Distgraphcomm on the same handle as `comm`, which compresses."""

    _handle = MPI.Distgraphcomm
    _rows: Optional[list[list[Optional[int]]]] = None

    def _topology(self) -> Topology:
        return Topology(self._graph(), self._weights)

    def _graph(self) -> Any:
        if self._rows is None and self._mixing is None:
            rows = _everybodys(self._port(), [-1 if r is None else r for r in self._sources()])
            self._rows = [[None if r < 0 else r for r in row] for row in rows]
        return self._rows

    def _sources(self) -> list[Optional[int]]:
        return [None if r == MPI.PROC_NULL else r for r in self.Get_dist_neighbors()[0]]

    def _destinations(self) -> list[Optional[int]]:
        return [None if r == MPI.PROC_NULL else r for r in self.Get_dist_neighbors()[1]]


def _everybodys(port: MPIPort, numbers: Sequence[int]) -> list[list[int]]:
    """Each rank's list of numbers, on every rank."""
    counts = np.empty(port.size, np.int64)
    port.comm.Allgather(np.array([len(numbers)]), counts)
    total = np.empty(int(counts.sum()), np.int64)
    port.comm.Allgatherv(np.array(numbers, np.int64), [total, counts])
    return [part.tolist() for part in np.split(total, np.cumsum(counts)[:-1])]


# Making them


def ring(comm: Optional[MPI.Comm] = None, codec: Any = None, **settings: Any) -> Cartcomm:
    """Each rank with the one before and the one after it: a Cartcomm. settings: weights, algorithm, seed, segment."""
    base = compressed(comm)
    return _cart(base, [base.size], True, codec, settings)


def torus(
    comm: Optional[MPI.Comm] = None, dims: Optional[Sequence[int]] = None, codec: Any = None, **settings: Any
) -> Cartcomm:
    """A grid whose ends are joined: a Cartcomm. Without dims it has two dimensions, as equal as possible; 0: chosen."""
    base = compressed(comm)
    return _cart(base, dims, True, codec, settings)


def grid(
    comm: Optional[MPI.Comm] = None, dims: Optional[Sequence[int]] = None, codec: Any = None, **settings: Any
) -> Cartcomm:
    """A grid: a Cartcomm. Neighbours beyond its ends are PROC_NULL. dims as for torus."""
    base = compressed(comm)
    return _cart(base, dims, False, codec, settings)


def hypercube(comm: Optional[MPI.Comm] = None, codec: Any = None, **settings: Any) -> Distgraphcomm:
    """Ranks whose numbers differ in one bit."""
    return _dist(compressed(comm), topology.hypercube, codec, settings)


def exponential(comm: Optional[MPI.Comm] = None, codec: Any = None, **settings: Any) -> Distgraphcomm:
    """Ranks 1, 2, 4, 8, ... before and after."""
    return _dist(compressed(comm), topology.exponential, codec, settings)


def complete(comm: Optional[MPI.Comm] = None, codec: Any = None, **settings: Any) -> Distgraphcomm:
    """Everybody with everybody."""
    return _dist(compressed(comm), topology.complete, codec, settings)


def star(comm: Optional[MPI.Comm] = None, codec: Any = None, **settings: Any) -> Distgraphcomm:
    """Rank 0 with everybody."""
    return _dist(compressed(comm), topology.star, codec, settings)


def graph(comm: Optional[MPI.Comm], g: Any, codec: Any = None, **settings: Any) -> Distgraphcomm:
    """Any connected graph, the same on all ranks: networkx, an adjacency matrix (non-zero: an edge), or a list or dict of
    neighbour lists. p lists of p numbers are a matrix."""

    def make(p: int, weights: Any) -> Topology:
        made = topology.graph(g, weights)
        if made.size != p:
            raise TopologyError(f"the graph has {made.size} nodes and the communicator {p} ranks")
        return made

    return _dist(compressed(comm), make, codec, settings)


def _cart(base: Comm, dims: Optional[Sequence[int]], periodic: bool, codec: Any, settings: Any) -> Cartcomm:
    def make(p: int, weights: Any) -> Topology:
        if not shape or int(np.prod(shape)) != p:
            raise TopologyError(f"dims={dims} does not fit {p} ranks")
        return topology.cart(shape, [periodic] * len(shape), weights)

    try:
        shape = MPI.Compute_dims(base.size, [0, 0] if dims is None else list(dims))
    except MPI.Exception:
        shape = []
    _agreed(base, make, settings.get("weights"))
    return Cartcomm(base.Create_cart(shape, [periodic] * len(shape)), codec, **settings)


def _dist(base: Comm, make: Any, codec: Any, settings: Any) -> Distgraphcomm:
    mixing = _agreed(base, make, settings.pop("weights", None))
    others = list(mixing.neighbors[base.rank])
    comm = Distgraphcomm(base.Create_dist_graph_adjacent(others, others), codec, **settings)
    comm._mixing = mixing
    return comm


def _agreed(base: Comm, make: Any, weights: Any) -> Topology:
    """The graph, if it is the same on all ranks; refused before MPI is asked."""
    port = port_of(base)
    with telling(port):
        made = make(base.size, weights)
    signature = f"{made}, neighbours {str(made.rows)[:200]}, fingerprint {made.fingerprint}"
    meet(port, signature, agreement.digest(signature), False, "a communicator on a graph", always=True)
    return made


def neighbor_allreduce(x: Any, comm: Any, weights: Any = None, codec: Any = None, seed: Optional[int] = None) -> Any:
    """The weighted average of x with the neighbours' arrays: see Neighborhood.neighbor_allreduce."""
    return _refined(comm).neighbor_allreduce(x, weights, codec, seed)


def refine(comm: MPI.Comm) -> Any:
    """A communicator with a topology as one of ours, on the same handle."""
    for plain, ours in ((MPI.Cartcomm, Cartcomm), (MPI.Distgraphcomm, Distgraphcomm)):
        if isinstance(comm, plain):
            return ours(comm)
    raise TypeError(f"comm must be a Cartcomm or a Distgraphcomm (mpicomp.ring(comm), ...), not {type(comm).__name__}")


def _refined(comm: MPI.Comm) -> Any:
    """As refine, one for each communicator, kept with it, so that its calls are counted."""
    return comm if isinstance(comm, Neighborhood) else kept(comm, "refined", lambda: refine(comm))
