"""The times of a communicator, measured once, when its first larger collective comes: about a second, on slow networks
two or three.

The algorithms are run in turns at a few sizes, for as long as they are quick; the slowest rank counts, and all ranks get the
same table.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, Callable, Optional

import numpy as np

from . import engine, planning, tuning
from .arrays import KINDS, Flat, beside, is_cupy
from .codecs.base import as_kind
from .codecs.raw import Raw
from .job import Randomness, Reduction
from .schedules import facts
from .settings import Settings
from .timing import Table

SIZES = (8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)  # bytes; the largest takes 8 MB of scratch memory
BUDGET = 0.25  # seconds for a size: where one took more, larger ones are measured once, or not at all
REPEATS = 3
ENOUGH, MOST = 0.15, 15  # of quick ones more, for so many seconds or turns: the first messages of a connection are slow
BEHIND = 2  # of the best one's time, with which more turns are worth nothing
WARM = 2  # turns that do not count: from the first, allocators learn what is worth keeping
LARGE = (8 << 20, 16 << 20, 32 << 20)  # bytes that are measured in addition when such an array comes
MEASURED = "measured on this communicator"
# Exact sums of factors: gathering is tried up to so many bytes that a rank receives, and a step less is worth so many seconds
# besides its own, since each waits for all ranks: 40 MB on 4 hosts that share 2 cores took 2 ms more with two steps more.
TRIED, STEP = 1 << 20, 5e-4


def table_for(port: Any, settings: Settings, x: Any, room: Any = None) -> Optional[Table]:
    """The table for these codecs: from MPICOMP_TUNING, or measured now (collective), or None where auto has no choice.
    `room` is as large as x and may be written to."""
    if not planning.has_choice(settings, x.nbytes, x.kind, port.size):
        return None
    key, sent = (settings.codec, settings.down, x.kind), port.stats.wire_bytes
    if key not in port.tables:
        port.tables[key] = tuning.load(port, *key) or (
            measure(port, settings, x.kind, SIZES, REPEATS, BUDGET) if _wanted() else None
        )
    if port.tables[key] is not None and x.nbytes >= LARGE[0] and isinstance(x, Flat):
        _extend(port.tables[key], port, settings, x, room)
    port.stats.wire_bytes = sent  # what was sent to measure is none of the caller's
    return port.tables[key]


def _extend(table: Table, port: Any, settings: Settings, x: Flat, room: Optional[Flat]) -> None:
    """Measure what caches do not hold, with the beginning of x itself, where that takes no longer than the rest."""
    names = planning.CANDIDATES
    for before, nbytes in zip((SIZES[-1], *LARGE), LARGE):
        due = table.source == MEASURED and all(table.points[name][-1][0] == before for name in names)
        if x.nbytes < nbytes or not due or sum(table.estimate(name, nbytes) for name in names) > BUDGET:
            continue
        n = nbytes // x.data.itemsize
        sample = beside(x.data[:n], None)
        out = np.empty_like(sample) if room is None or is_cupy(room.data) else room.data[:n]
        for name, took in race(port, _runs(port, settings, Flat(sample, x.kind), Flat(out, x.kind)), REPEATS).items():
            table.add(name, nbytes, took)
        port.pool.clear()


def _wanted() -> bool:
    return os.environ.get("MPICOMP_CALIBRATE", "1") != "0"


def measure(
    port: Any,
    settings: Settings,
    kind: str,
    sizes: tuple[int, ...],
    repeats: int,
    budget: float,
    progress: Callable[..., None] = lambda algorithm, nbytes: None,
) -> Table:
    """Time every algorithm at every size, until a size takes longer than the budget and its bytes are what takes it: what
    comes then is on a line. Latency alone tells nothing of larger sizes, so there it goes on, once each. Collective."""
    if not port.shares:
        port.share_memory()
    table, call = Table(MEASURED), 0.0
    for before, nbytes in zip((0, *sizes), sizes):
        n = nbytes // KINDS[kind].storage.itemsize
        x = as_kind(np.random.default_rng(0).standard_normal(n, KINDS[kind].accumulator), kind)
        out = Flat(np.empty_like(x.data), kind)
        runs = _runs(port, settings, x, out)
        for name, took in race(port, runs, repeats, partial(progress, nbytes=nbytes)).items():
            table.add(name, nbytes, took)
        last, call = call, sum(points[-1][1] for points in table.points.values())
        if (repeats + 1) * call > budget:
            if last and call / last > nbytes / before / 2:
                break
            repeats = 1
    return table


def measure_ways(port: Any, plan: planning.Plan) -> None:
    """Find out how lowrank's two sums travel best, when the first of a magnitude comes. Collective."""
    sent = port.stats.wire_bytes
    for nbytes in plan.sides:
        if _wanted() and _magnitude(nbytes) not in port.tables and (port.size - 1) * nbytes <= TRIED:
            x = Flat(np.zeros(nbytes // 4, np.float32), "f32")
            exact = plan.settings.override(codec=Raw())
            took = race(port, {name: _once(port, exact, name, x, x) for name in ("direct", "gather")}, REPEATS)
            port.tables[_magnitude(nbytes)] = "gather" if took["gather"] < took["direct"] + STEP else "direct"
    port.stats.wire_bytes = sent


def with_ways(port: Any, plan: planning.Plan) -> planning.Plan:
    """The plan, by what was found out."""
    found = (port.tables.get(_magnitude(nbytes)) or facts.exact(plan.p, nbytes) for nbytes in plan.sides)
    return replace(plan, measured=tuple(found))


def _magnitude(nbytes: int) -> Any:
    return "sum", nbytes.bit_length()


def _runs(port: Any, settings: Settings, x: Flat, out: Flat) -> dict[str, Callable[[], None]]:
    """An allreduce of x by each algorithm."""
    return {name: _once(port, settings, name, x, out) for name in planning.CANDIDATES}


def _once(port: Any, settings: Settings, algorithm: str, x: Flat, out: Flat) -> Callable[[], None]:
    """One allreduce of x by an algorithm, on the private communicator."""
    if algorithm == "raw":
        return lambda: port.comm.Allreduce(x.data, out.data)
    plan = planning.choose(settings.override(algorithm=algorithm), x.n, x.kind, port.size, near=port.near)
    randomness = Randomness(0, 0, port.rank, port.size)

    def run() -> None:
        job = Reduction(settings.codec, settings.down, x, out, 1.0, randomness, port.pool)
        engine.wait(engine.Run(port, plan.lanes(port, job, port.tag(0)), label="calibration"))

    return run


def race(
    port: Any, runs: dict[str, Callable[[], None]], repeats: int, progress: Callable[[str], None] = lambda name: None
) -> dict[str, float]:
    """The median seconds of each. They take turns, so that what disturbs the machine disturbs all alike, in an order that
    changes, as what runs before leaves its mark on caches; the quicker ones more turns. All ranks stop together."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for name in min(WARM, repeats) * [*runs]:
        runs[name]()
    going, turns = list(runs), 0
    while turns < repeats or (repeats > 1 and turns < MOST and sum(map(sum, times.values())) < ENOUGH):
        for name in random.Random(turns).sample(going, len(going)):
            if not turns:
                progress(name)
            times[name].append(seconds(port, runs[name]))
        turns += 1
        if turns >= repeats:
            best = min(map(median, times.values()))
            going = [name for name in going if median(times[name]) < BEHIND * best]
    return {name: median(each) for name, each in times.items()}


def seconds(port: Any, once: Callable[[], None]) -> float:
    """Of the slowest rank."""
    port.comm.Barrier()
    begin = time.perf_counter()
    once()
    return port.slowest(time.perf_counter() - begin)
