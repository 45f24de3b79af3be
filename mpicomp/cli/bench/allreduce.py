"""mpicomp bench allreduce: compressed against the same MPI's own Allreduce, same buffers, same run."""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from ...tuning import parse_size
from ..timing import Table, alternate, seconds, size

CODECS = ["natural", "natural:bits=8", "bf16"]
SIZES = ["4KB", "256KB", "4MB", "40MB"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codecs", nargs="*", default=CODECS, help=f"specs ({' '.join(CODECS)})")
    parser.add_argument("--sizes", nargs="+", type=parse_size, metavar="SIZE", help=f"sizes ({' '.join(SIZES)})")
    parser.add_argument("--algorithm", default="auto", help="algorithm (auto)")
    parser.add_argument("--runs", type=int, default=11, help="runs of which the median counts (11)")


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    from ...comm import Comm

    plain = MPI.COMM_WORLD
    comms = {spec: Comm(plain.Dup(), spec, algorithm=arguments.algorithm) for spec in arguments.codecs}
    if plain.rank == 0:
        print(f"Allreduce of float32 on {plain.size} ranks, {MPI.Get_library_version().splitlines()[0].strip()}")
        print("times as fast as MPI's own; algorithm", arguments.algorithm, end="\n\n")
    table = Table({"size": 8, "MPI alone": 10, **{spec: max(len(spec), 8) for spec in comms}}, plain.rank)
    for nbytes in arguments.sizes or map(parse_size, SIZES):
        table.doing(size(nbytes))
        x = np.random.default_rng(plain.rank).standard_normal(max(nbytes // 4, 1), dtype=np.float32)
        out = np.empty_like(x)
        jobs = {spec: partial(comm.Allreduce, x, out) for spec, comm in (*comms.items(), ("raw", plain))}
        times = alternate(jobs, arguments.runs, plain, repeat=max(1, 400_000 // nbytes))
        table.doing()
        table.line(size(nbytes), seconds(times["raw"]), *(f"{times['raw'] / times[spec]:.2f}x" for spec in comms))
