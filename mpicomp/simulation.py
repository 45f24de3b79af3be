"""Collectives on virtual ranks: the same schedules and codecs as on MPI, in one process, with a virtual clock."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

from . import arrays, planning, settings
from .engine import Run
from .errors import CodecError
from .job import Randomness, Reduction
from .memory import remember
from .ports.sim import Costed, Costs, Network, SimPort, Simulation

__all__ = ["Costs", "Network", "Result", "Simulation", "allreduce"]


class Result(NamedTuple):
    """What each virtual rank got, how long it took in virtual time, how many bytes each rank sent."""

    arrays: list[Any]
    seconds: float
    bytes_sent: list[int]


def allreduce(
    xs: Sequence[Any],
    op: str = "sum",
    codec: Any = None,
    algorithm: str = "direct",
    seed: int = 0,
    call: int = 0,
    segment: Optional[int] = None,
    network: Network = Network(),
    costs: Costs = Costs(),
    memories: Optional[Sequence[Any]] = None,
) -> Result:
    """mpicomp.allreduce of one array for each virtual rank, each with what it remembers of earlier calls, if anything."""
    chosen = settings.make(codec, algorithm, seed, segment)
    simulation = Simulation(len(xs), network)
    outs = [arrays.empty_like(x) for x in xs]

    def begin(port: SimPort) -> Run:
        x, out = arrays.flatten(xs[port.rank]), arrays.flatten(outs[port.rank])
        if x is None or out is None:
            raise CodecError(f"xs[{port.rank}] must hold floating-point numbers")
        plan = planning.choose(chosen, x.n, x.kind, port.size, None, x.shapes)
        randomness = Randomness(seed, call, port.rank, port.size)
        scale = 1.0 / port.size if op == "mean" else 1.0
        memory = remember(plan.settings.codec, "", x) if memories is None else memories[port.rank]
        make = Reduction if memory is None else memory.job
        job = make(plan.settings.codec, plan.settings.down, x, out, scale, randomness, port.pool)
        return Run(port, plan.lanes(port, Costed(job, port, costs), port.tag()))

    seconds = simulation.run(begin)
    return Result(outs, seconds, [port.bytes_sent for port in simulation.ports])
