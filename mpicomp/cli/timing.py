"""Honest comparisons: everything is measured in one run, in turns, and medians are compared."""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any, Callable, Mapping, Optional

import numpy as np

from .terminal import watched


def alternate(
    jobs: Mapping[str, Callable[[], Any]],
    runs: int,
    comm: Any = None,
    repeat: int = 1,
    clear: Callable[[], Any] = int,
    more: int = 1,
) -> dict[str, float]:
    """Median seconds of each job. They take turns, so other work on the machine harms all alike; `more` turns before are not
    counted. With `comm` all ranks start together and the slowest one's time counts. `clear` is called before each, untimed."""
    times = np.empty((runs + more, len(jobs)))
    for turn in times:
        for index, job in enumerate(jobs.values()):
            clear()
            if comm is not None:
                comm.Barrier()
            start = time.perf_counter()
            for _ in range(repeat):
                job()
            turn[index] = (time.perf_counter() - start) / repeat
    if comm is not None:
        from mpi4py import MPI

        comm.Allreduce(MPI.IN_PLACE, times, MPI.MAX)
    return {name: median(column[more:]) for name, column in zip(jobs, times.T)}


def size(nbytes: float) -> str:
    """4 KB, 16 MB: as people say it, in powers of 1024."""
    power = next((power for power in range(3) if nbytes < 1024 ** (power + 1)), 3)
    return f"{nbytes / 1024**power:.3g} {('B', 'KB', 'MB', 'GB')[power]}"


def seconds(value: float) -> str:
    """12 ms, 3.4 us."""
    power = next((power for power in range(2) if value >= 1000**-power), 2)
    return f"{value * 1000**power:.3g} {('s', 'ms', 'us')[power]}"


class Table:
    """Rows printed as they come, on rank 0 alone; `doing` shows what is measured, where somebody watches."""

    def __init__(self, heads: Mapping[str, int], rank: int = 0):
        self._widths, self._quiet = list(heads.values()), rank != 0
        self.line(*heads)

    def line(self, *cells: Any) -> None:
        if not self._quiet:
            print("  ".join(f"{cell!s:>{width}}" for cell, width in zip(cells, self._widths)).rstrip(), flush=True)

    def doing(self, what: Optional[str] = None) -> None:
        if not self._quiet and watched():
            print(f"\r\033[K{f'measuring {what} ...' if what else ''}", end="", file=sys.stderr, flush=True)
