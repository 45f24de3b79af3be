"""The same sum with several codecs: bytes sent, error, time. An unchanged mpi4py program but for the communicator.

mpirun -n 4 python examples/allreduce_numpy.py
mpirun -n 4 python examples/allreduce_numpy.py --megabytes 40 --plot codecs.png natural natural:bits=8 qsgd:bits=4
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, Sequence

import numpy as np
from mpi4py import MPI

import mpicomp
from mpicomp.cli.bench import plots
from mpicomp.cli.numbers import positive
from mpicomp.cli.terminal import watched

CODECS = ["raw", "bf16", "natural", "natural:bits=8", "natural-dithering:bits=4", "qsgd:bits=4", "terngrad"]


def measure(comm: MPI.Intracomm, x: np.ndarray, codec: str, repeats: int) -> tuple[Any, float, np.ndarray]:
    """(the plan, seconds, the sum)"""
    compressed = mpicomp.Comm(comm, codec, algorithm="raw" if codec == "raw" else "direct")
    out = np.empty_like(x)
    times = []
    for _ in range(repeats + 1):  # the first is not counted
        comm.Barrier()
        begin = time.perf_counter()
        compressed.Allreduce(x, out)
        times.append(time.perf_counter() - begin)
    return compressed.plan(x), comm.allreduce(float(np.median(times[1:])), MPI.MAX), out


def plot(path: Path, rows: list[tuple[str, int, float, float]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for codec, nbytes, error, _ in rows:
        axes.plot(nbytes / 1e6, max(error, 1e-8), "o")
        axes.annotate(codec, (nbytes / 1e6, max(error, 1e-8)), xytext=(5, 3), textcoords="offset points")
    axes.set(xscale="log", yscale="log", xlabel="MB sent by each rank", ylabel="relative error of the sum")
    figure.savefig(path)
    print(f"plot: {path}")


def size(text: str) -> float:
    if not 4e-6 <= float(text) < 1e6:
        raise ValueError
    return float(text)


def main(codecs: Sequence[str] = CODECS) -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("codecs", nargs="*", default=codecs)
    options.add_argument(
        "--megabytes", type=size, default=4, help="of float32 values on each rank (default: %(default)s)"
    )
    options.add_argument("--repeats", type=positive, default=5)
    options.add_argument("--plot", type=Path, metavar="FILE", help="error against bytes (needs matplotlib)")
    arguments = options.parse_args()
    plots.check(arguments)

    comm = MPI.COMM_WORLD
    x = np.random.default_rng(comm.rank).standard_normal(int(arguments.megabytes * 250_000)).astype(np.float32)
    exact = np.empty(x.size)
    comm.Allreduce(x.astype(np.float64), exact)
    if comm.rank == 0:
        print(
            f"{x.nbytes / 1e6:g} MB on each of {comm.size} ranks\n{'codec':26} {'sent by a rank':>15} {'error':>9} {'bound':>9} {'ms':>8}"
        )
    rows = []
    for done, codec in enumerate(arguments.codecs):
        if comm.rank == 0 and watched():
            print(f"\r[{'=' * (30 * done // len(arguments.codecs)):30}] {codec}", end="\r", file=sys.stderr, flush=True)
        plan, seconds, out = measure(comm, x, codec, arguments.repeats)
        error = float(np.linalg.norm(out - exact) / np.linalg.norm(exact))
        rows.append((codec, plan.wire_bytes, error, seconds))
        if comm.rank == 0:
            sent, bound = f"{plan.wire_bytes / 1e6:.3f} MB", plan.expected_error
            print(f"{codec:26} {sent:>15} {error:9.2g} {bound:9.2g} {seconds * 1e3:8.2f}{' ' * 40}", flush=True)
    if comm.rank == 0 and arguments.plot:
        plot(arguments.plot, rows)


if __name__ == "__main__":
    main()
