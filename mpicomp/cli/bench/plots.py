"""--plot: pictures of what was measured, by matplotlib (the extra `plot`)."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...codecs import codec
from ...errors import Error
from ..timing import seconds
from ..together import on_first
from .data import values
from .report import Report

BLOCK = 65536
MARKS = "os^vD*PX<>ph"


def check(arguments: argparse.Namespace, comm: Any = None) -> None:
    """Whether -J and --plot can be written, before anything is measured. With `comm` by rank 0, for all."""
    if comm is not None:
        return on_first(comm, check, arguments)
    if getattr(arguments, "output_file", None):  # examples have no -J
        _writable("-J", arguments.output_file)
    if arguments.plot:
        if find_spec("matplotlib") is None:
            raise Error("--plot needs matplotlib: pip install 'mpicomp[plot]'")
        _writable("--plot", arguments.plot)
        from matplotlib.backend_bases import FigureCanvasBase

        known, suffix = FigureCanvasBase.get_supported_filetypes(), os.path.splitext(arguments.plot)[1]
        if suffix and suffix[1:].lower() not in known:
            raise Error(f"--plot {arguments.plot}: no picture is called {suffix} (known: {', '.join(sorted(known))})")


def _writable(option: str, path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise Error(f"{option} {path}: there is no folder {folder}")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise Error(f"{option} {path} cannot be written")


def figure(*args: Any, **kwargs: Any) -> Any:
    """(figure, axes) without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(*args, **kwargs)


def save(picture: Any, path: str) -> None:
    picture.savefig(path, dpi=120, bbox_inches="tight")


def codecs(arguments: argparse.Namespace, report: Report) -> None:
    """Error against bits on the wire: every codec that was measured, and natural against standard dithering."""
    if not arguments.plot:
        return
    picture, (left, right) = figure(1, 2, figsize=(13, 5.5))
    first, largest = report.rows[0]["data"], report.rows[-1]["size"]
    rows = [row for row in report.rows if row["data"] == first and row["size"] == largest and row["error"]]
    for index, row in enumerate(rows):
        left.plot(row["bits"], row["error"], MARKS[index % len(MARKS)], markersize=7, alpha=0.8, label=row["codec"])
    left.legend(fontsize=6.5, loc="lower left")
    left.set(title=f"every codec, {first} data", xlabel="bits a value on the wire", ylabel="relative error (rms)")
    left.set(xscale="log", yscale="log")
    for p, dashes in ((2, "-"), ("inf", "--")):
        for name, color in (("dithering", "tab:red"), ("natural-dithering", "tab:blue")):
            bits, errors = zip(*dithering(name, p))
            right.plot(bits, errors, dashes, color=color, marker="o", markersize=4, label=f"{name}, p={p}")
    right.axhline((1 / 8) ** 0.5, color="gray", linewidth=0.8)
    right.annotate(
        "bound of natural compression", (6.2, (1 / 8) ** 0.5), xytext=(0, 3), textcoords="offset points", fontsize=7
    )
    right.set(
        title=f"as many levels, one norm for {BLOCK:,} normal values",
        xlabel="bits a value, with its sign",
        yscale="log",
    )
    right.legend(fontsize=8)
    for axis in (left, right):
        axis.grid(alpha=0.3, which="both")
    save(picture, arguments.plot)


def dithering(name: str, p: Any) -> list[tuple[int, float]]:
    """(bits, relative error) with 2 to 8 bits, in blocks so large that even levels are far apart."""
    x = values("normal", 8 * BLOCK)
    found = []
    for bits in range(2, 9):
        each = codec(f"{name}:bits={bits},block={BLOCK},p={p}")
        y = each.decode(each.encode(x, seed=1), like=x)
        found.append((bits, float(np.linalg.norm(y - x) / np.linalg.norm(x))))
    return found


def sizes(arguments: argparse.Namespace, report: Report, key: str, label: str) -> None:
    """A line for each codec and algorithm over the sizes, and plain MPI where its times are in the rows."""
    if not arguments.plot or report.rank != 0 or not report.rows:
        return
    names = list(dict.fromkeys(row.get("collective", "") for row in report.rows))
    picture, axes = figure(1, len(names), figsize=(6.5 * len(names), 4.5), squeeze=False)
    for name, axis in zip(names, axes[0]):
        rows = [row for row in report.rows if row.get("collective", "") == name]
        lines: dict[str, dict[int, float]] = {}
        for row in rows:
            if key == "time_us":
                lines.setdefault("MPI alone", {})[row["size"]] = row["raw_us"]
            lines.setdefault(f"{row['codec']} {row['algorithm']}", {})[row["size"]] = row[key]
        for title, points in lines.items():
            black = {"color": "black", "linewidth": 2} if title.startswith("MPI alone") else {}
            axis.plot(list(points), list(points.values()), marker="o", markersize=3, label=title, **black)
        axis.set(xscale="log", xlabel="bytes", ylabel=label, title=name)
        axis.set_yscale("log" if key == "time_us" else "linear")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    picture.suptitle(f"{report.facts['ranks']} ranks on {report.facts['hosts']} host(s), {report.facts['MPI']}")
    save(picture, arguments.plot)


def scaling(arguments: argparse.Namespace, report: Report) -> None:
    """Predicted seconds over the ranks: the best algorithm of each codec, and gossip, one step and all it needs."""
    if not arguments.plot:
        return
    from matplotlib import ticker

    picture, axes = figure(1, 2, figsize=(13, 5.2))
    for axis, key, title in zip(axes, ("seconds", "consensus"), ("one call, one step", "until all ranks agree")):
        lines: dict[str, dict[int, float]] = {}
        for row in report.rows:
            gossip = row["what"] == "gossip"
            name = f"gossip on a {row['algorithm']}, {row['codec']}" if gossip else f"{row['what']}, {row['codec']}"
            name = "raw" if row["what"] == "raw" else name
            line = lines.setdefault(name, {})
            took = row[key if gossip else "seconds"]
            line[row["ranks"]] = min(took, line.get(row["ranks"], took))
        for name, line in lines.items():
            style = {"color": "black", "linewidth": 2} if name == "raw" else {}
            axis.plot(
                list(line), list(line.values()), "--o" if "gossip" in name else "-o", markersize=4, label=name, **style
            )
        axis.set(xscale="log", yscale="log", xlabel="ranks", title=title)
        axis.set_xticks(arguments.ranks, list(map(str, arguments.ranks)), minor=False)
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: seconds(value))
        axis.grid(alpha=0.3)
    axes[0].yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes[1].legend(fontsize=8)
    picture.suptitle(f"{report.facts['mpicomp simulate']}; {report.facts['network']}")
    save(picture, arguments.plot)
