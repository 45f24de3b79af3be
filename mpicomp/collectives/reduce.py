"""Reduce: the sum of all ranks' arrays at the root."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

from .. import buffers
from ..errors import BufferError
from ..ports.mpi import MPIPort
from ..schedules.reduce import ALGORITHMS
from ..settings import Settings
from . import base
from .family import Family


class Reduce(Family):
    name = "Reduce"
    algorithms = ALGORITHMS

    def __init__(
        self, port: MPIPort, settings: Settings, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0
    ):
        if port.rank == root:
            flats = buffers.pair(sendbuf, recvbuf)
        else:
            x = buffers.flat(sendbuf, "sendbuf")
            flats = None if x is None else (x, x)  # nothing is written
        if flats is None:
            raise BufferError("sendbuf and, at the root, recvbuf must hold floating-point data")
        self._settle(port, settings, *flats, root)

    @classmethod
    def concerns(cls, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0) -> bool:
        return op == MPI.SUM and base.floating(recvbuf if buffers.in_place(sendbuf) else sendbuf)

    def default(self, p: int) -> str:
        return "server" if p == 2 else "direct"  # the same bytes, and one encoding less
