"""A collective with every codec and algorithm at every size, in turns with the same MPI's own on the same values."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import numpy as np

from ... import __version__, launch
from ...errors import Error
from ..together import together
from . import options, plots
from .data import describe, square, values
from .report import Bar, Column, Report, digits
from .turns import Times, repeats, take_turns

COLUMNS = {
    "collective": Column("collective", 20),
    "size": Column("size B", 10),
    "count": Column("count", 10),
    "type": Column("type", 7),
    "codec": Column("codec", 24),
    "algorithm": Column("algorithm", 12),
    "used": Column("used", 12),
    "time_us": Column("time us", 9, digits(4)),
    "min_us": Column("min us", 9, digits(4)),
    "avg_us": Column("avg us", 9, digits(4)),
    "max_us": Column("max us", 9, digits(4)),
    "algbw": Column("algbw GB/s", 10, digits(3)),
    "busbw": Column("busbw GB/s", 10, digits(3)),
    "wire": Column("wire B", 10, lambda value: "-" if value is None else str(value)),
    "ratio": Column("ratio", 6, digits(3)),
    "error": Column("error", 8, digits(3)),
    "raw_us": Column("raw us", 9, digits(4)),
    "speedup": Column("speed-up", 8, digits(3)),
}


@dataclass(frozen=True)
class Collective:
    """What is measured. `call(comm, x, out, **settings)`; without settings on plain MPI, it is what they are compared with."""

    name: str
    call: Callable[..., Any]
    bus: float  # busbw / algbw, as nccl-tests have it
    sent: float  # bytes that a rank must send without compression, in arrays of the size
    shapes: Callable[[int], tuple[Any, Any]]  # of x and out, for a size of n values
    result: str = "same"  # on every rank; "own": another on each; "root": on rank 0 alone
    rows: Any = ...  # where in out other ranks' values are


@dataclass(frozen=True)
class Trial:
    """One thing to measure: a codec by an algorithm, the settings of a call or of its communicator; or a peer's `call`."""

    codec: str
    algorithm: str
    comm: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    call: Optional[Callable[[np.ndarray, np.ndarray], Any]] = None
    part: Optional[float] = None  # of the bytes without compression, that a peer sends; None: not known


def sweep(
    arguments: argparse.Namespace,
    plain: Any,
    collectives: Sequence[Collective],
    trials: Iterable[Trial],
    notes: Iterable[str] = (),
) -> None:
    """Measure and report. Exits with 1 if ranks that should have the same bits do not."""
    plots.check(arguments, plain)
    sizes, trials = options.sizes(arguments), list(trials)
    columns = {key: each for key, each in COLUMNS.items() if len(collectives) > 1 or key != "collective"}
    report = Report(columns, facts(arguments, plain), arguments, plain.rank)
    for text in notes:
        report.note(text)
    bar = Bar(len(sizes) * len(collectives), plain.rank, arguments.progress)
    same = True
    for collective in collectives:
        for nbytes in sizes:
            bar.step(f"{collective.name} {nbytes:,} bytes")
            rows, equal = _measure(arguments, plain, collective, nbytes, trials, report)
            same = same and equal
            bar.step()
            for row in rows:
                report.row(row)
    if not same:
        report.note("RANKS HAVE DIFFERENT BITS: please report this")
    report.close()
    plots.sizes(arguments, report, "time_us", "microseconds")
    if not same:
        sys.exit(1)


def facts(arguments: argparse.Namespace, plain: Any) -> dict[str, Any]:
    """What the numbers hold for."""
    from mpi4py import MPI

    hosts = len(set(plain.allgather(MPI.Get_processor_name())))
    name, version = MPI.get_vendor()
    return {
        "mpicomp": f"{__version__} bench {arguments.what}",
        "MPI": f"{name} {'.'.join(map(str, version))}",
        "ranks": plain.size,
        "hosts": hosts,
        "kernels": launch.describe(),
        "data": f"{describe(arguments.data)}; other values on every rank",
        "turns": f"{arguments.iters} after {arguments.warmup_iters}; time: median of the slowest rank",
    }


def _measure(
    arguments: argparse.Namespace, plain: Any, what: Collective, nbytes: int, trials: Sequence[Trial], report: Report
) -> tuple[list[dict[str, Any]], bool]:
    """The rows of one size, and whether all ranks had the same bits."""
    dtype = np.dtype(arguments.datatype)
    given, wanted = what.shapes(max(nbytes // dtype.itemsize, 1))
    n = int(np.prod(given))
    x = together(plain, values, arguments.data, n, plain.rank, dtype, arguments.seed).reshape(given)
    out = np.empty(wanted, dtype)
    exact = _exact(what, plain, x, out) if arguments.check else None
    done, jobs, same = [], [partial(what.call, plain, x, out)], True
    for trial in trials:
        call = trial.call or partial(what.call, trial.comm, **trial.settings)
        job = partial(call, *_shaped(trial, x, out))
        try:
            job()  # auto may measure the network in it
            _begin(x, out)
            cells = _sent(trial, job, plain)
        except (Error, ValueError) as error:
            report.note(f"{what.name}, {trial.codec}, {trial.algorithm} is left out: {error}")
            continue
        cells["error"] = None if exact is None else _error(what, plain, out, exact)
        same = same and (trial.comm is None or what.result != "same" or _same_bits(plain, out))
        done.append((trial, cells))
        jobs.append(job)
    times = take_turns(jobs, plain, arguments.iters, arguments.warmup_iters, repeats(nbytes), arguments.budget)
    total = max(x.nbytes, out.nbytes) if what.result == "same" else x.nbytes
    shape = {"collective": what.name, "size": total, "count": total // dtype.itemsize, "type": dtype.name}
    return [
        {
            **shape,
            "codec": trial.codec,
            "algorithm": trial.algorithm,
            **cells,
            **_speeds(what, trial, total, cells, mine, times[0]),
        }
        for (trial, cells), mine in zip(done, times[1:])
    ], same


def _speeds(
    what: Collective, trial: Trial, nbytes: int, cells: Mapping[str, Any], mine: Times, raw: Times
) -> dict[str, Any]:
    speed = nbytes / mine.slowest / 1e9
    plain_bytes = round(what.sent * nbytes)
    wire = plain_bytes if cells["used"] == "raw" else cells["wire"]
    if trial.part is not None:
        wire = round(trial.part * plain_bytes)
    return {
        "time_us": mine.slowest * 1e6,
        "min_us": mine.least * 1e6,
        "avg_us": mine.mean * 1e6,
        "max_us": mine.largest * 1e6,
        "algbw": speed,
        "busbw": speed * what.bus,
        "wire": wire,
        "ratio": plain_bytes / wire if wire else None,
        "raw_us": raw.slowest * 1e6,
        "raw_avg_us": raw.mean * 1e6,
        "raw_min_us": raw.least * 1e6,
        "raw_max_us": raw.largest * 1e6,
        "speedup": raw.slowest / mine.slowest,
        "iterations": mine.turns,
    }


def _sent(trial: Trial, job: Callable[[], Any], plain: Any) -> dict[str, Any]:
    """Run it; the algorithm that it took and what the busiest rank sent, where we know."""
    if trial.comm is None:
        job()
        return {"used": "-", "wire": None}
    stats = trial.comm.stats
    stats.reset()
    job()
    wire = max(plain.allgather(stats.wire_bytes))
    used = next((key[1] for key in stats.rows), "direct" if wire else "raw")
    return {"used": used, "wire": None if used == "raw" else wire}


def _shaped(trial: Trial, x: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """lowrank needs matrices, as square as can be."""
    if not trial.codec.startswith("lowrank") or x.shape != out.shape:
        return x, out
    return x.reshape(square(x.size)), out.reshape(square(x.size))


def _begin(x: np.ndarray, out: np.ndarray) -> None:
    """What a call in place starts from; for others, nothing that could be taken for a result."""
    out[...] = x if x.shape == out.shape else np.nan


def _exact(what: Collective, plain: Any, x: np.ndarray, out: np.ndarray) -> np.ndarray:
    wide, exact = x.astype(np.float64), np.empty(out.shape)
    _begin(wide, exact)
    what.call(plain, wide, exact)
    return exact


def _error(what: Collective, plain: Any, out: np.ndarray, exact: np.ndarray) -> float:
    """|out - exact| / |exact| over all ranks that have a result."""
    out, exact = out[what.rows], exact[what.rows]
    with np.errstate(all="ignore"):  # infinite values have no error that could be told
        parts = plain.allgather((float(np.sum((out - exact) ** 2)), float(np.sum(exact**2))))
        off, norm = np.sum(parts[:1] if what.result == "root" else parts, 0)
        return float(np.sqrt(off / norm)) if norm else 0.0


def _same_bits(plain: Any, out: np.ndarray) -> bool:
    first = out.copy()
    plain.Bcast(first)
    return all(plain.allgather(first.tobytes() == out.tobytes()))
