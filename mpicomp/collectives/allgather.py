"""Allgather and Allgatherv: every rank's array on every rank, with the same bits.

The sender too decodes its own wire into recvbuf; sendbuf stays as it is.
"""

from __future__ import annotations

from typing import Any

from .. import buffers
from ..errors import BufferError
from ..ports.mpi import MPIPort
from ..schedules.allgather import ALGORITHMS
from ..settings import Settings
from . import base
from .family import Family


class Allgather(Family):
    name = "Allgather"
    algorithms = ALGORITHMS
    sums = False
    equal = True  # all ranks' parts are

    def __init__(self, port: MPIPort, settings: Settings, sendbuf: Any, recvbuf: Any):
        rows = buffers.blocks(recvbuf, port.size, "recvbuf", True, self.equal)
        x = rows[port.rank] if rows and buffers.in_place(sendbuf) else buffers.flat(sendbuf, "sendbuf")
        if x is None or rows is None:
            raise BufferError("sendbuf and recvbuf must both hold floating-point data")
        mine = rows[port.rank]
        buffers.same_kind(x, mine)
        if x.n != mine.n:
            raise BufferError(f"sendbuf has {x.n} values; recvbuf has room for {mine.n} from rank {port.rank}")
        for row in rows if x is not mine else ():
            buffers.apart(x, row)
        self._settle(port, settings, [x if r == port.rank else row for r, row in enumerate(rows)], rows)

    @classmethod
    def concerns(cls, sendbuf: Any, recvbuf: Any) -> bool:
        return base.floating(buffers.head(recvbuf))


class Allgatherv(Allgather):
    name = "Allgatherv"
    equal = False
