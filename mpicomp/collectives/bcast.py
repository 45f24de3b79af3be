"""Bcast: the root's array on every rank, with the same bits: the root's own values become what the others decode."""

from __future__ import annotations

from typing import Any

from .. import buffers
from ..errors import BufferError
from ..ports.mpi import MPIPort
from ..schedules.bcast import ALGORITHMS
from ..settings import Settings
from . import base
from .family import Family


class Bcast(Family):
    name = "Bcast"
    algorithms = ALGORITHMS
    sums = False
    alike = False  # the root may send a column that others receive as a row

    def __init__(self, port: MPIPort, settings: Settings, buf: Any, root: int = 0):
        x = buffers.flat(buf, "buf", writable=port.rank != root)
        if x is None:
            raise BufferError("buf cannot be used as floating-point data")
        self._settle(port, settings, x, x, root)
        if self.plan.algorithm not in ("raw", "copy"):
            buffers.flat(buf, "buf", writable=True)  # the root's too

    @classmethod
    def concerns(cls, buf: Any, root: int = 0) -> bool:
        return base.floating(buf)
