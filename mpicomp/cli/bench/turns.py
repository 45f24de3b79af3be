"""Everything in turns, so that other work on the machine and a network's moods harm all alike."""

from __future__ import annotations

import time
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np


class Times(NamedTuple):
    """Seconds of one job: the median over turns of the slowest rank; least, mean and largest of the ranks' medians."""

    slowest: float
    least: float
    mean: float
    largest: float
    turns: int


def take_turns(
    jobs: Sequence[Callable[[], Any]], comm: Any, turns: int, warmups: int, repeat: int = 1, budget: float = 60.0
) -> list[Times]:
    """The times of each job, on every rank. Collective; stops early, at 3 turns or more, when the budget is spent."""
    begin = time.perf_counter()
    taken: list[list[float]] = []
    while len(taken) < warmups + turns:
        order = np.random.default_rng(len(taken)).permutation(
            len(jobs)
        )  # what comes before leaves its traces in caches
        times = {job: _once(jobs[job], comm, repeat) for job in order.tolist()}
        taken.append([times[job] for job in range(len(jobs))])
        late = time.perf_counter() - begin > budget and len(taken) > 3
        if comm.bcast(late):
            break
    counted = np.array(taken[warmups:] if len(taken) >= warmups + min(turns, 3) else taken[1:])
    every = np.array(comm.allgather(counted))  # ranks, turns, jobs
    slowest, medians = np.median(every.max(0), 0), np.median(every, 1)
    columns = np.stack([slowest, medians.min(0), medians.mean(0), medians.max(0)], 1).tolist()
    return [Times(a, b, c, d, len(counted)) for a, b, c, d in columns]


def repeats(nbytes: int) -> int:
    """How many calls in a row are timed as one: many of those that are over before all ranks have begun."""
    return min(max(400_000 // max(nbytes, 1), 1), 100)


def _once(job: Callable[[], Any], comm: Any, repeat: int) -> float:
    comm.Barrier()
    start = time.perf_counter()
    for _ in range(repeat):
        job()
    return (time.perf_counter() - start) / repeat
