"""mpicomp demo: what compression does for Allreduce, here and now."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from .. import __version__, launch
from ..tuning import parse_size
from . import numbers
from .timing import Table, alternate, seconds, size

SIZES = ["4KB", "256KB", "1MB", "4MB", "16MB", "40MB"]
HEADS = {"float32": 8, "MPI alone": 10, "mpicomp": 10, "speed-up": 9, "bytes sent": 11, "compressed": 11, "error": 8}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--codec", default="natural", help="spec of the codec (natural)")
    parser.add_argument("--sizes", nargs="+", type=numbers.size, metavar="SIZE", help=f"sizes ({' '.join(SIZES)})")
    parser.add_argument("--runs", type=numbers.positive, default=9, help="runs of which the median counts (9)")


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    from ..comm import Comm

    plain = MPI.COMM_WORLD
    comm = Comm(plain.Dup(), arguments.codec)
    if comm.rank == 0:
        print(f"mpicomp {__version__}, {_library(MPI)}, {comm.size} ranks, kernels: {launch.describe()}")
        print(
            f"Allreduce by MPI alone and with codec {comm.codec}; median of {arguments.runs} runs of each, in turns\n"
        )
    table = Table(HEADS, comm.rank)
    same = True
    for nbytes in arguments.sizes or map(parse_size, SIZES):
        table.doing(size(nbytes))
        row, equal = _measure(comm, plain, nbytes, arguments.runs)
        same = same and equal
        table.doing()
        table.line(*row)
    if comm.rank == 0:
        print("\nerror: |result - exact sum| / |exact sum|. What MPI is faster at is left to it.")
        print("every rank has the same bits" if same else "THE RANKS HAVE DIFFERENT BITS: please report this")
        if comm.size == 1:
            print("(one rank only: nothing had to be sent; start me with mpirun -n 2)")


def _measure(comm: Any, plain: Any, nbytes: int, runs: int) -> tuple[list[str], bool]:
    n = max(nbytes // 4, 1)
    x = np.random.default_rng(comm.rank).standard_normal(n, dtype=np.float32)
    out = np.empty_like(x)  # the same for both: where an array lies alone can make a third of the time
    jobs = {"raw": lambda: plain.Allreduce(x, out), "out": lambda: comm.Allreduce(x, out)}
    times = alternate(jobs, runs, plain, repeat=max(1, 100_000 // nbytes))
    plan = comm.plan(x)
    exact = np.empty(n)
    plain.Allreduce(x.astype(np.float64), exact)
    error = float(np.linalg.norm(out - exact) / np.linalg.norm(exact))
    sent = 2 * (comm.size - 1) / comm.size * x.nbytes
    row = [
        size(nbytes),
        seconds(times["raw"]),
        seconds(times["out"]),
        f"{times['raw'] / times['out']:.2f}x",
        size(sent),
        f"to {plan.wire_bytes / sent:.0%}" if sent and plan.algorithm != "raw" else "no",
        f"{error:.1%}" if error > 1e-5 else "none",
    ]
    return row, _same_bits(plain, out)


def _same_bits(comm: Any, x: np.ndarray) -> bool:
    """Whether x is the same on all ranks, bit for bit."""
    first = x.view(np.uint32).copy()
    comm.Bcast(first)
    return all(comm.allgather(bool((first == x.view(np.uint32)).all())))


def _library(MPI: Any) -> str:
    name, version = MPI.get_vendor()
    return f"{name} {'.'.join(map(str, version))}"
