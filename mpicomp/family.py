"""The collective family as methods of a communicator: blocking, non-blocking and persistent, with mpi4py's signatures.

All take codec=, algorithm=, seed= and segment= besides, for one call. Floating-point data is compressed, and SUM only, where
the communicator's codec can carry it and, with algorithm "auto", where it is not too small to gain; everything else goes to
MPI untouched.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from mpi4py import MPI

from . import arrays
from .collectives import base, untouched
from .collectives.allgather import Allgather, Allgatherv
from .collectives.bcast import Bcast
from .collectives.family import Family
from .collectives.reduce import Reduce
from .collectives.reduce_scatter import ReduceScatter, ReduceScatterBlock
from .request import Prequest, Request

_SUM, _NO_INFO = MPI.SUM, MPI.INFO_NULL


class FamilyMixin:
    """For mpicomp.Comm. I... methods return a request, ..._init ones a persistent request."""

    # Reduce_scatter: this rank's part of the sum

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = _SUM, **settings: Any) -> None:
        """An equal part of the sum of all ranks' arrays for each rank."""
        self._now(ReduceScatterBlock, (sendbuf, recvbuf, op), settings)

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = _SUM, **settings: Any) -> Any:
        return self._later(ReduceScatterBlock, (sendbuf, recvbuf, op), settings)

    def Reduce_scatter_block_init(
        self, sendbuf: Any, recvbuf: Any, op: MPI.Op = _SUM, info: MPI.Info = _NO_INFO, **settings: Any
    ) -> Any:
        return self._again(ReduceScatterBlock, (sendbuf, recvbuf, op), info, settings)

    def Reduce_scatter(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Optional[Sequence[int]] = None,
        op: MPI.Op = _SUM,
        **settings: Any,
    ) -> None:
        """recvcounts[r] values of the sum of all ranks' arrays for rank r."""
        self._now(ReduceScatter, (sendbuf, recvbuf, recvcounts, op), settings)

    def Ireduce_scatter(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Optional[Sequence[int]] = None,
        op: MPI.Op = _SUM,
        **settings: Any,
    ) -> Any:
        return self._later(ReduceScatter, (sendbuf, recvbuf, recvcounts, op), settings)

    def Reduce_scatter_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Optional[Sequence[int]] = None,
        op: MPI.Op = _SUM,
        info: MPI.Info = _NO_INFO,
        **settings: Any,
    ) -> Any:
        return self._again(ReduceScatter, (sendbuf, recvbuf, recvcounts, op), info, settings)

    # Allgather: every rank's array everywhere

    def Allgather(self, sendbuf: Any, recvbuf: Any, **settings: Any) -> None:
        """Every rank's array on every rank, with the same bits; sendbuf stays as it is."""
        self._now(Allgather, (sendbuf, recvbuf), settings)

    def Iallgather(self, sendbuf: Any, recvbuf: Any, **settings: Any) -> Any:
        return self._later(Allgather, (sendbuf, recvbuf), settings)

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: MPI.Info = _NO_INFO, **settings: Any) -> Any:
        return self._again(Allgather, (sendbuf, recvbuf), info, settings)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any, **settings: Any) -> None:
        """As Allgather, for arrays of different lengths."""
        self._now(Allgatherv, (sendbuf, recvbuf), settings)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any, **settings: Any) -> Any:
        return self._later(Allgatherv, (sendbuf, recvbuf), settings)

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: MPI.Info = _NO_INFO, **settings: Any) -> Any:
        return self._again(Allgatherv, (sendbuf, recvbuf), info, settings)

    # Bcast and Reduce: from and to the root

    def Bcast(self, buf: Any, root: int = 0, **settings: Any) -> None:
        """The root's array on every rank, with the same bits: where it is compressed, the root's own is rounded too."""
        self._now(Bcast, (buf, root), settings)

    def Ibcast(self, buf: Any, root: int = 0, **settings: Any) -> Any:
        return self._later(Bcast, (buf, root), settings)

    def Bcast_init(self, buf: Any, root: int = 0, info: MPI.Info = _NO_INFO, **settings: Any) -> Any:
        return self._again(Bcast, (buf, root), info, settings)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = _SUM, root: int = 0, **settings: Any) -> None:
        """The sum of all ranks' arrays at the root."""
        self._now(Reduce, (sendbuf, recvbuf, op, root), settings)

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = _SUM, root: int = 0, **settings: Any) -> Any:
        return self._later(Reduce, (sendbuf, recvbuf, op, root), settings)

    def Reduce_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        op: MPI.Op = _SUM,
        root: int = 0,
        info: MPI.Info = _NO_INFO,
        **settings: Any,
    ) -> Any:
        return self._again(Reduce, (sendbuf, recvbuf, op, root), info, settings)

    # How each of them goes

    def _now(self: Any, kind: type[Family], args: Sequence[Any], settings: dict[str, Any]) -> None:
        shape = untouched.shape(kind.name, args)
        call = None
        if settings or shape not in self._untouched:
            call = kind.prepare(self, args, settings)
        if call is not None:
            if self._carried(call, settings.get("seed")):
                return
            if not settings and shape is not None and not (call.port.stats.timed or self._watched):
                self._untouched.add(shape)
        untouched.now(self, kind.name, _plain(args), call)

    def _later(self: Any, kind: type[Family], args: Sequence[Any], settings: dict[str, Any]) -> Any:
        call = kind.prepare(self, args, settings)
        if call is not None and call.plan.algorithm != "raw":
            return Request(call.start(*self._number(call.settings.seed, settings.get("seed"))))
        if call is not None:
            call.port.stats.count(call)
        return untouched.later(self, kind.name, _plain(args), call)

    def _again(self: Any, kind: type[Family], args: Sequence[Any], info: MPI.Info, settings: dict[str, Any]) -> Any:
        call = kind.prepare(self, args, settings)
        if call is not None and call.plan.algorithm != "raw":
            return Prequest(self._starter(call, settings.get("seed")))
        base.settle(self, call)
        return untouched.again(self, kind.name, _plain(args), info, call)


def _plain(args: Sequence[Any]) -> list[Any]:
    """MPI takes no tensor that requires grad."""
    return [arrays.detached(x) for x in args]
