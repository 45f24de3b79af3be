"""mpicomp bench overlap: how much of a non-blocking Allreduce is hidden behind computing, as the OSU benchmarks have it.

First the time of Iallreduce and Wait alone, then with computing of the same length between the two. The overlap is
100 (1 - (total - compute) / pure) percent, at least 0. The computing is NumPy's, which releases the interpreter's lock.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any, Callable

import numpy as np

from ...errors import Error
from ...schedules import ALLREDUCE
from .. import numbers
from ..together import together
from . import options, plots
from .allreduce import trials
from .data import values
from .report import Bar, Column, Report, digits
from .sweep import Trial, facts
from .turns import take_turns

COLUMNS = {
    "size": Column("size B", 10),
    "count": Column("count", 10),
    "type": Column("type", 7),
    "codec": Column("codec", 24),
    "algorithm": Column("algorithm", 12),
    "total_us": Column("overall us", 10, digits(4)),
    "compute_us": Column("compute us", 10, digits(4)),
    "time_us": Column("pure comm us", 12, digits(4)),
    "overlap": Column("overlap %", 9, digits(3)),
    "speedup": Column("speed-up", 8, digits(3)),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_collective(parser)
    parser.set_defaults(minbytes=64 << 10, maxbytes=16 << 20)
    parser.add_argument("-t", "--tests", type=numbers.not_negative, default=0, help="calls of Test while computing (0)")


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    plain, sizes = MPI.COMM_WORLD, options.sizes(arguments)
    plots.check(arguments, plain)
    known = [Trial("MPI alone", "-", plain), *trials(arguments, plain, ALLREDUCE)]
    report = Report(COLUMNS, facts(arguments, plain), arguments, plain.rank)
    report.note("overall: with computing between Iallreduce and Wait; speed-up: of overall, against MPI alone")
    bar, unit = Bar(len(sizes) * len(known), plain.rank, arguments.progress), _Unit()
    for nbytes in sizes:
        n = max(nbytes // np.dtype(arguments.datatype).itemsize, 1)
        x = together(plain, values, arguments.data, n, plain.rank, arguments.datatype, arguments.seed)
        alone = 0.0
        for trial in known:
            bar.step(f"{trial.codec} {nbytes:,} bytes")
            try:
                cells = _measure(arguments, plain, trial, x, unit)
            except (Error, ValueError) as error:
                report.note(f"{trial.codec}, {trial.algorithm} is left out: {error}")
                continue
            alone = alone or cells["total_us"]
            shape = {"size": x.nbytes, "count": n, "type": x.dtype.name}
            bar.step()
            named = {"codec": trial.codec, "algorithm": trial.algorithm, "speedup": alone / cells["total_us"]}
            report.row({**shape, **named, **cells})
    report.close()
    plots.sizes(arguments, report, "overlap", "overlap, percent")


def _measure(arguments: argparse.Namespace, plain: Any, trial: Trial, x: np.ndarray, unit: _Unit) -> dict[str, Any]:
    begin = partial(trial.comm.Iallreduce, x, np.empty_like(x))
    pure = take_turns([lambda: begin().Wait()], plain, 5, 2)[0].slowest
    parts = [unit.work(pure / (arguments.tests + 1))] * (arguments.tests + 1)

    def compute() -> None:
        for part in parts:
            part()

    def both() -> None:
        request = begin()
        for part in parts[1:]:
            part()
            request.Test()
        parts[0]()
        request.Wait()

    jobs = [lambda: begin().Wait(), compute, both]
    times = take_turns(jobs, plain, arguments.iters, arguments.warmup_iters, 1, arguments.budget)
    pure, computing, total = (each.slowest for each in times)
    hidden = max(0.0, 100 * (1 - (total - computing) / pure))
    names = {"time_us": pure, "compute_us": computing, "total_us": total}
    return {**{name: value * 1e6 for name, value in names.items()}, "overlap": min(hidden, 100.0)}


class _Unit:
    """A piece of computing whose length is known: square roots of 64 KB, which stay in a core's cache."""

    def __init__(self) -> None:
        self.x, self.out = np.full(16384, 2.0, np.float32), np.empty(16384, np.float32)
        self.run(200)
        begin = time.perf_counter()
        self.run(1000)
        self.seconds = (time.perf_counter() - begin) / 1000

    def run(self, count: int) -> None:
        for _ in range(count):
            np.sqrt(self.x, out=self.out)

    def work(self, seconds: float) -> Callable[[], None]:
        """What takes about that long."""
        return partial(self.run, max(round(seconds / self.seconds), 1))
