"""Allreduce: every rank gets the sum (or the mean) of all ranks' arrays, with the same bits."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional

from mpi4py import MPI

from .. import agreement, buffers, calibration, planning
from ..codecs import LowRank
from ..engine import Run
from ..memory import remember
from ..ports.mpi import MPIPort, port_of
from ..reference.rng import stream_key
from ..settings import Settings
from . import base

RULES = ("MPICOMP_ALLREDUCE", "MPICOMP_FLOOR", "MPICOMP_CALIBRATE")  # what decides besides the settings


class Call(base.Call):
    """One Allreduce."""

    name = "Allreduce"

    def __init__(
        self,
        port: MPIPort,
        settings: Settings,
        x: Any,
        out: Any,
        mean: bool = False,
        memory: Any = None,
        later: bool = False,
    ):
        """With feedback among the settings, `memory` is what earlier calls remembered, or new. Not before it starts is
        there anything written to `out` if that is `later`."""
        self.port, self.x, self.out = port, x, out
        self.scale = 1.0 / port.size if mean else 1.0
        self.plan, self.signature, self.digest = _planned(port, settings, x, None if later or x is out else out, mean)
        self.settings = self.plan.settings
        self.memory: Any = memory or remember(self.settings.codec, settings.feedback, x)
        if self.memory is not None:
            self.make = self.memory.job

    def buffers(self) -> tuple[Any, Any]:
        """For MPI: the flat views, since it takes no tensor that requires grad."""
        return MPI.IN_PLACE if self.x is self.out else self.x.data, self.out.data

    def start_next(self, seed: int, call: int) -> Run:
        """A new Run of a call that remembers: its random numbers are those of the memory's next step."""
        memory = self.memory

        def finish(error: Optional[BaseException]) -> None:
            if error is None:
                memory.advance()

        return self.start(stream_key(seed, call), memory.step, finish)


def _planned(port: MPIPort, settings: Settings, x: Any, room: Any, mean: bool) -> tuple[planning.Plan, str, int]:
    """(plan, signature, its digest), thought about once for each shape. The ranks agree before they measure together, for
    which `room`, unless it is None, may be written to."""
    shapes = x.shapes if isinstance(settings.codec, LowRank) else ()
    ruled = [os.environ.get(variable, "") for variable in RULES]
    key = (settings, str(x), shapes, mean, *ruled)
    if key not in port.plans:
        signature = (
            f"Allreduce({'mean' if mean else 'sum'} of {x}, codec={settings.codec}, "
            f"down={settings.down}, algorithm={settings.algorithm}, seed={settings.seed}, segment={settings.segment}"
            f"{settings.feedback and f', feedback={settings.feedback}'}{f', shapes={shapes}' if shapes else ''}"
            f"{''.join(f', {variable}={value}' for variable, value in zip(RULES, ruled) if value)})"
        )
        digest = agreement.digest(signature)
        share = x.nbytes >= base.LARGE and settings.algorithm in ("auto", "direct") and not port.shares
        if share or planning.has_choice(settings, x.nbytes, x.kind, port.size):
            base.meet(port, signature, digest, share, "Allreduce")
        table = calibration.table_for(port, settings, x, room)
        plan = planning.choose(settings, x.n, x.kind, port.size, table, shapes, port.near, len(set(port.nodes)))
        if planning.has_ways(plan):
            base.meet(port, signature, digest, False, "Allreduce")
            calibration.measure_ways(port, plan)
            plan = calibration.with_ways(port, plan)
        port.plans[key] = (plan, signature, digest)
    return port.plans[key]


def prepare(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    op: MPI.Op,
    settings: Callable[[], Settings],
    mean: bool = False,
    later: bool = False,
) -> Optional[Call]:
    """A checked Call, or None where the buffers or the operation are not for a codec."""
    if op != MPI.SUM or not (base.floating(recvbuf) or (not buffers.in_place(sendbuf) and base.floating(sendbuf))):
        return None
    port = port_of(comm)
    with base.telling(port):
        flats = buffers.pair(sendbuf, recvbuf)
        return None if flats is None else Call(port, settings(), *flats, mean, later=later)
