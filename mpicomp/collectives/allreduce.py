"""Allreduce: every rank gets the sum (or the mean) of all ranks' arrays, with the same bits."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional

from mpi4py import MPI

from .. import agreement, buffers, calibration, planning
from ..engine import Run, wait
from ..job import Randomness, Reduction
from ..ports.mpi import MPIPort, port_of
from ..settings import Settings


class Call:
    """One Allreduce with its arguments checked: a plan and, unless that is raw, everything to start it (again)."""

    make: type[Reduction] = Reduction

    def __init__(self, port: MPIPort, settings: Settings, x: Any, out: Any, mean: bool = False):
        self.port, self.x, self.out = port, x, out
        self.scale = 1.0 / port.size if mean else 1.0
        self.plan, self.signature, self.digest = _planned(port, settings, x, mean)
        self.settings = self.plan.settings

    def buffers(self) -> tuple[Any, Any]:
        """For MPI: the flat views, since it takes no tensor that requires grad."""
        return MPI.IN_PLACE if self.x is self.out else self.x.data, self.out.data

    def start(self, seed: int, call: int, finish: Optional[Callable[[Optional[BaseException]], None]] = None) -> Run:
        """A new Run; `call` numbers the calls of one communicator, so that each has random numbers of its own."""
        port, settings = self.port, self.settings
        tag = port.tag(self.digest)
        randomness = Randomness(seed, call, port.rank, port.size)
        job = self.make(settings.codec, settings.down, self.x, self.out, self.scale, randomness, port.pool)
        check = agreement.agree(port, self.signature, self.digest)
        lanes = self.plan.lanes(port, job, tag)
        return Run(port, lanes, prologue=check, finish=finish, label=f"Allreduce #{port.calls}", tag=tag)


def _planned(port: MPIPort, settings: Settings, x: Any, mean: bool) -> tuple[planning.Plan, str, int]:
    """(plan, signature, its digest), thought about once for each shape. The ranks agree before they measure together."""
    key = (settings, str(x), mean, os.environ.get("MPICOMP_ALLREDUCE"), os.environ.get("MPICOMP_FLOOR"))
    if key not in port.plans:
        signature = (
            f"Allreduce({'mean' if mean else 'sum'} of {x}, codec={settings.codec}, "
            f"down={settings.down}, algorithm={settings.algorithm}, seed={settings.seed}, segment={settings.segment})"
        )
        digest = agreement.digest(signature)
        if planning.has_choice(settings, x.nbytes, x.kind, port.size):
            check = agreement.agree(port, signature, digest)
            wait(Run(port, (), prologue=check, label="Allreduce", tag=port.next_tag(digest), call=port.calls + 1))
        table = calibration.table_for(port, settings, x.kind, x.nbytes)
        plan = planning.choose(settings, x.n, x.kind, port.size, table)
        port.plans[key] = (plan, signature, digest)
    return port.plans[key]


def prepare(
    comm: Any, sendbuf: Any, recvbuf: Any, op: MPI.Op, settings: Callable[[], Settings], mean: bool = False
) -> Optional[Call]:
    """A checked Call, or None where the buffers or the operation are not for a codec.

    A rank that finds its arguments wrong tells the others before it raises.
    """
    if op != MPI.SUM or not _floating(recvbuf):
        return None
    port = port_of(comm)
    try:
        flats = buffers.pair(sendbuf, recvbuf)
        return None if flats is None else Call(port, settings(), *flats, mean)
    except Exception as error:
        port.fail(error)
        raise


def _floating(recvbuf: Any) -> bool:
    """Whether this is data for a codec at all; leaves faults to be reported by who looks closer."""
    try:
        return buffers.flat(recvbuf, "recvbuf") is not None
    except ValueError:
        return True
