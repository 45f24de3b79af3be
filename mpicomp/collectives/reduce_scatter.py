"""Reduce_scatter and Reduce_scatter_block: every rank gets its part of the sum of all ranks' arrays."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import numpy as np
from mpi4py import MPI

from .. import agreement, arrays, buffers
from ..arrays import Flat
from ..engine import Run, wait
from ..errors import BufferError
from ..ports.mpi import MPIPort
from ..schedules.reduce_scatter import ALGORITHMS
from ..settings import Settings
from . import base
from .base import Finish
from .family import Family


class ReduceScatter(Family):
    name = "Reduce_scatter"
    algorithms = ALGORITHMS

    def __init__(
        self,
        port: MPIPort,
        settings: Settings,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Optional[Sequence[int]] = None,
        op: MPI.Op = MPI.SUM,
    ):
        target = buffers.flat(recvbuf, "recvbuf", writable=True)
        source = target if buffers.in_place(sendbuf) else buffers.flat(sendbuf, "sendbuf")
        if source is None or target is None:
            raise BufferError("sendbuf and recvbuf must both hold floating-point data")
        buffers.same_kind(source, target)
        lengths = self._lengths(port, target, recvcounts, buffers.in_place(sendbuf))
        ends = np.cumsum([0, *lengths]).tolist()
        if source.n != ends[-1]:
            raise BufferError(f"there are {source.n} values to be summed; the ranks get {ends[-1]}")
        if target.n < lengths[port.rank]:
            raise BufferError(f"recvbuf has {target.n} values; rank {port.rank} gets {lengths[port.rank]}")
        x = [source[lo:hi] for lo, hi in zip(ends, ends[1:])]
        self.target = target[: lengths[port.rank]]
        if not buffers.in_place(sendbuf):
            buffers.apart(source, self.target)
        # In place, the result begins where rank 0's part does: harmless only if all parts are equally long.
        aside = buffers.in_place(sendbuf) and len(set(lengths)) > 1
        self.result = Flat(arrays.empty_like(self.target.data), source.kind) if aside else self.target
        self._settle(port, settings, x, [self.result if r == port.rank else part for r, part in enumerate(x)])

    def _lengths(self, port: MPIPort, target: Flat, counts: Any, in_place: bool) -> list[int]:
        """How many values each rank gets. Collective if mpi4py's way, by what each has room for, is asked for."""
        if counts is None:
            if in_place:
                raise BufferError("Reduce_scatter in place needs recvcounts")
            return _exchange(port, target.n)
        lengths = buffers.whole_numbers(counts, port.size, "recvcounts")
        if min(lengths) < 0:
            raise BufferError(f"recvcounts={counts!r} must not be negative")
        return [target.unit * length for length in lengths]

    @classmethod
    def concerns(cls, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: MPI.Op = MPI.SUM) -> bool:
        return op == MPI.SUM and base.floating(recvbuf)

    def start(self, seed: int, call: int, finish: Optional[Finish] = None) -> Run:
        if self.result is self.target:
            return super().start(seed, call, finish)

        def end(error: Optional[BaseException]) -> None:
            if error is None and self.plan.algorithm != "raw":
                self.target.data[:] = self.result.data
            if finish is not None:
                finish(error)

        return super().start(seed, call, end)


def _exchange(port: MPIPort, length: int) -> list[int]:
    """Every rank's length, on every rank."""
    signature = "Reduce_scatter(without recvcounts)"
    digest = agreement.digest(signature)
    tag, lengths = port.tag(digest), np.zeros(port.size, np.int64)
    lengths[port.rank] = length
    rows = lengths.view(np.uint8).reshape(port.size, 8)

    def lane() -> Iterator[Any]:
        others = [rank for rank in range(port.size) if rank != port.rank]
        comes = [port.irecv(rows[rank], rank, tag) for rank in others]
        yield comes + [port.isend(rows[port.rank], rank, tag) for rank in others]

    wait(Run(port, [lane()], prologue=agreement.agree(port, signature, digest), label="Reduce_scatter", tag=tag))
    return lengths.tolist()


class ReduceScatterBlock(ReduceScatter):
    name = "Reduce_scatter_block"

    def __init__(self, port: MPIPort, settings: Settings, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM):
        super().__init__(port, settings, sendbuf, recvbuf, None, op)

    def _lengths(self, port: MPIPort, target: Flat, counts: Any, in_place: bool) -> list[int]:
        if in_place and target.n % port.size:
            raise BufferError(f"recvbuf: {target.n} values cannot be shared out evenly among {port.size} ranks")
        return [target.n // port.size if in_place else target.n] * port.size

    @classmethod
    def concerns(cls, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> bool:  # type: ignore[override]
        return op == MPI.SUM and base.floating(recvbuf)
