"""mpicomp bench family: Reduce_scatter_block, Allgather, Bcast and Reduce, compressed and by the same MPI alone."""

from __future__ import annotations

import argparse
from typing import Any

from ...codecs import codec
from ...errors import Error
from . import options
from .sweep import Collective, Trial, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_collective(parser)
    parser.add_argument("--collective", action="append", metavar="NAME", help="only these; repeated, or a comma list")


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    from ...comm import Comm

    plain = MPI.COMM_WORLD
    known = {each.name.lower(): each for each in collectives(plain.size)}
    asked = [name.lower() for name in options.split(arguments.collective)] or list(known)
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise Error(f"no collective named {unknown[0]!r} (known: {', '.join(known)})")
    sweep(arguments, plain, [known[name] for name in asked], call_trials(arguments, Comm(plain.Dup())))


def call_trials(arguments: argparse.Namespace, comm: Any) -> list[Trial]:
    """Each codec by each algorithm as settings of a call: what is no sum is compressed only where the call says so."""
    known = ("direct", "ring", "server")
    return [
        Trial(str(codec(spec)), name, comm, {"codec": spec, "algorithm": name, "seed": arguments.seed})
        for spec in options.codecs(arguments)
        for name in options.algorithms(arguments, known)
    ]


def collectives(p: int) -> list[Collective]:
    """Their sizes are those of the larger buffer, as in nccl-tests."""
    share, last = (p - 1) / p, 1.0 if p > 1 else 0.0

    def part(n: int) -> int:
        return max(n // p, 1)

    return [
        Collective(
            "Reduce_scatter_block",
            lambda comm, x, out, **how: comm.Reduce_scatter_block(x, out, **how),
            share,
            share,
            lambda n: (part(n) * p, part(n)),
            "own",
        ),
        Collective(
            "Allgather",
            lambda comm, x, out, **how: comm.Allgather(x, out, **how),
            share,
            share,
            lambda n: (part(n), part(n) * p),
        ),
        Collective("Bcast", lambda comm, x, out, **how: comm.Bcast(out, **how), 1.0, last, lambda n: (n, n)),
        Collective(
            "Reduce", lambda comm, x, out, **how: comm.Reduce(x, out, **how), 1.0, last, lambda n: (n, n), "root"
        ),
    ]
