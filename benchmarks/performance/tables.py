"""The tables of docs/performance.md, as Markdown."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

from benchmarks.page import number, table
from mpicomp import codec

from .machine import machine
from .markdown import commands, name_of
from .results import VALUES, Results, ideal, wire_bytes
from .runs import CODECS, HOSTS, ON_OPENMPI, OTHERS, RATES

SHOWN_RATES = {"100Mbit": "100 Mbit/s", "1Gbit": "1 Gbit/s", "10Gbit": "10 Gbit/s"}
MPIS = {"mpich": "MPICH", "openmpi": "Open MPI"}


def codecs(results: Results) -> str:
    heads = ["codec", "bits a value", "error (rms)", "encode GB/s", "× memcpy", "decode GB/s", "× memcpy"]
    keys = ("encode_gbs", "encode", "decode_gbs", "decode")
    rows = [
        [name_of(row["codec"]), number(row["bits"]), f"{row['error']:.2g}", *(number(row[key]) for key in keys)]
        for row in results.rows("codecs")
    ]
    return table(heads, rows) + "\n\n" + commands(results, "codecs")


def shared(results: Results) -> str:
    trials = [(spec, how) for spec in ("natural", "natural:bits=8") for how in ("auto", "direct")]
    heads = ["MPI", "ranks", "MPI alone, ms", *(f"{name_of(spec)} {how}" for spec, how in trials)]
    rows, names = [], []
    for mpi, ranks in places():
        name = f"shm-{mpi}-{ranks}"
        names.append(name)
        cells = [_time_and_gain(results.row(name, spec, how)) for spec, how in trials]
        rows.append([MPIS[mpi], ranks, number(results.raw(name)), *cells])
    return table(heads, rows) + "\n\n" + commands(results, *names)


def small(results: Results) -> str:
    found = {place: rows for place in places() if (rows := results.rows(f"small-{place[0]}-{place[1]}"))}
    sizes = sorted({row["size"] for rows in found.values() for row in rows})
    heads = ["bytes", *(f"{MPIS[mpi]}, {ranks} ranks" for mpi, ranks in found)]

    def cell(rows: list[dict[str, Any]], size: int) -> str:
        row = next((row for row in rows if row["size"] == size), None)
        return f"{number(row['raw_us'])} → {number(row['time_us'])} ({1 / row['speedup']:.2f})" if row else "-"

    rows = [[size, *(cell(rows, size) for rows in found.values())] for size in sizes]
    return table(heads, rows) + "\n\n" + commands(results, *(f"small-{mpi}-{ranks}" for mpi, ranks in found))


def sizes(results: Results) -> str:
    """What auto takes, and how far that is from the best of everything."""
    where = {f"sizes-{mpi}-{ranks}": f"{MPIS[mpi]}, {ranks} ranks" for mpi, ranks in places()}
    where.update({f"sizes-net-4-{rate}": f"4 hosts at {text}" for rate, text in SHOWN_RATES.items()})
    where = {name: text for name, text in where.items() if results.get(name)}
    every = sorted({row["size"] for name in where for row in results.rows(name)})
    rows = [[_size(size), *(_auto(results.rows(name), size) for name in where)] for size in every]
    return table(["size", *where.values()], rows) + "\n\n" + commands(results, *where)


def networks(results: Results) -> str:
    parts = [_hosts(results, hosts) for hosts in HOSTS if results.get(f"net-{hosts}-1Gbit")]
    names = [f"net-4-{rate}{kind}" for rate in RATES for kind in ("", "-ring", "-others")]
    return "\n\n".join([*parts, commands(results, *names)])


def auto(results: Results) -> str:
    heads = ["hosts", "link", "codec", "auto takes", "ms", "× faster than MPI's default", "`direct`, ms"]
    rows = []
    for hosts, rate in ((hosts, rate) for hosts in HOSTS for rate in SHOWN_RATES):
        for row in results.rows(f"net-{hosts}-{rate}-auto"):
            by_direct = results.row(f"net-{hosts}-{rate}", row["codec"], "direct")
            time = by_direct["time_us"] / 1e3 if by_direct else None
            cells = [number(row["time_us"] / 1e3), number(row["speedup"]), number(time)]
            rows.append([hosts, SHOWN_RATES[rate], name_of(row["codec"]), row["used"], *cells])
    return table(heads, rows) + "\n\n" + commands(results, "net-4-1Gbit-auto")


def openmpi(results: Results) -> str:
    return "\n\n".join(
        _one(results, f"Open MPI, {SHOWN_RATES[rate]}", f"net-4-{rate}-openmpi", ON_OPENMPI, rate)
        for rate in ("1Gbit", "100Mbit")
    )


def delayed(results: Results) -> str:
    return _one(results, "MPICH, 1 Gbit/s and 0.1 ms", "net-4-1Gbit-delayed", CODECS, "1Gbit")


def overlap(results: Results) -> str:
    heads = ["hosts", "codec", "alone, ms", "computing, ms", "both, ms", "hidden", "× faster than MPI's Iallreduce"]
    rows = []
    for hosts in (2, 4):
        for row in results.rows(f"overlap-{hosts}"):
            times = [number(row[key] / 1e3) for key in ("time_us", "compute_us", "total_us")]
            rows.append([hosts, row["codec"], *times, f"{row['overlap']:.0f} %", number(row["speedup"])])
    return table(heads, rows) + "\n\n" + commands(results, "overlap-2", "overlap-4")


def neighbor(results: Results) -> str:
    heads = ["where", "MPI alone, ms", "codec", "ms", "× faster"]
    where = {"neighbor-net": "4 hosts at 1 Gbit/s", "neighbor-shm": "2 ranks, shared memory"}
    rows = [
        [text, number(row["raw_us"] / 1e3), name_of(row["codec"]), number(row["time_us"] / 1e3), number(row["speedup"])]
        for name, text in where.items()
        for row in results.rows(name)
    ]
    return table(heads, rows) + "\n\n" + commands(results, *where)


TABLES: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "codecs": codecs,
    "shared": shared,
    "small": small,
    "sizes": sizes,
    "networks": networks,
    "auto": auto,
    "delayed": delayed,
    "openmpi": openmpi,
    "overlap": overlap,
    "neighbor": neighbor,
}


def places() -> list[tuple[str, int]]:
    return [(mpi, ranks) for mpi in MPIS for ranks in (2, 4)]


def _time_and_gain(row: Optional[dict[str, Any]]) -> str:
    return f"{number(row['time_us'] / 1e3)} ({number(row['speedup'])}×)" if row else "-"


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MB" if nbytes >> 20 else f"{nbytes >> 10} KB"


def _auto(rows: list[dict[str, Any]], size: int) -> str:
    """ "direct 1.03": what auto takes, and its time in times of the best of all, raw included."""
    here = [row for row in rows if row["size"] == size]
    mine = next((row for row in here if row["algorithm"] == "auto"), None)
    if mine is None:
        return "-"
    best = min(here, key=lambda row: row["time_us"])
    name, least = best["algorithm"], best["time_us"]
    if mine["raw_us"] < least:
        name, least = "raw", mine["raw_us"]
    ratio = mine["time_us"] / least
    return f"{mine['used']} {ratio:.2f}" + (f" ({name})" if ratio > 1.15 and name != mine["used"] else "")


def _one(results: Results, title: str, name: str, specs: Iterable[str], rate: str) -> str:
    """4 hosts."""
    times = {"default": results.raw(name), "forced ring": results.raw(f"{name}-ring")}
    rows = [
        [f"MPI alone: {how}", number(time), "", _ratio(time, "raw", 4, rate)] for how, time in times.items() if time
    ]
    rows += [[name_of(spec), *_cells(results, name, spec, 4, rate)] for spec in specs]
    return table([f"**{title}**", "ms", "× faster", "× ideal"], rows) + "\n\n" + commands(results, name, f"{name}-ring")


def _hosts(results: Results, hosts: int) -> str:
    """Milliseconds, times faster than MPI alone, times the ideal, for each rate."""
    names = {rate: f"net-{hosts}-{rate}" for rate in SHOWN_RATES if results.get(f"net-{hosts}-{rate}")}
    heads = [f"**{hosts} hosts**", "bits a value", "error"]
    heads += [text for rate in names for text in (f"{SHOWN_RATES[rate]}: ms", "× faster", "× ideal")]
    rows = []
    for title, kind in (("MPI alone: default", ""), ("MPI alone: forced ring", "-ring")):
        times = {rate: results.raw(name + kind) for rate, name in names.items()}
        cells = [text for rate, time in times.items() for text in (number(time), "", _ratio(time, "raw", hosts, rate))]
        rows.append([title, "32", "", *cells])
    for spec in (*CODECS, *OTHERS):
        measured = results.row(names["1Gbit"], spec, "direct", "lowrank")  # each hop of a ring adds to the error
        cells = [text for rate, name in names.items() for text in _cells(results, name, spec, hosts, rate)]
        bits = number(wire_bytes(str(codec(spec))) * 8 / VALUES)
        rows.append([name_of(spec), bits, number(measured["error"] if measured else None), *cells])
    return table(heads, rows)


def _cells(results: Results, name: str, spec: str, hosts: int, rate: str) -> list[str]:
    row = results.row(name, spec)
    if row is None:
        return ["-", "-", "-"]
    time, raw = row["time_us"] / 1e3, results.fastest_raw(name)
    by = "°" if row["algorithm"] == "ring" else ""
    return [number(time) + by, number(raw / time if raw else None), _ratio(time, spec, hosts, rate)]


def _ratio(time: Optional[float], spec: str, hosts: int, rate: str) -> str:
    return number(time / ideal(spec, hosts, rate) if time else None)
