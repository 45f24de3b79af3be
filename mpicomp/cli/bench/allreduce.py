"""mpicomp bench allreduce: compressed against the same MPI's own Allreduce, same buffers, same run."""

from __future__ import annotations

import argparse
from typing import Any

from ...schedules import ALLREDUCE
from . import options, peers
from .sweep import Collective, Trial, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_collective(parser)
    parser.add_argument("--compare", action="store_true", help="also mpi4py in float16, torch's gloo and its hooks")


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    plain = MPI.COMM_WORLD
    others, notes = peers.trials(plain, arguments.datatype) if arguments.compare else ([], [])
    sweep(arguments, plain, [allreduce(plain.size)], trials(arguments, plain, ALLREDUCE) + others, notes)


def allreduce(p: int) -> Collective:
    share = 2 * (p - 1) / p
    return Collective("Allreduce", lambda comm, x, out: comm.Allreduce(x, out), share, share, lambda n: (n, n))


def trials(arguments: argparse.Namespace, plain: Any, known: Any) -> list[Trial]:
    """Each codec by each algorithm: communicators with those settings, on one duplicate."""
    from ...comm import Comm

    handle, found = plain.Dup(), []
    for spec in options.codecs(arguments):
        for name in options.algorithms(arguments, known):
            comm = Comm(handle, spec, algorithm=name, seed=arguments.seed)
            found.append(Trial(str(comm.codec), name, comm))
    return found
