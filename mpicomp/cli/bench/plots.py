"""--plot: pictures of what was measured, by matplotlib (the extra `plot`)."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from ...errors import Error
from .report import Report


def check(arguments: argparse.Namespace) -> None:
    """Before anything is measured."""
    if arguments.plot and find_spec("matplotlib") is None:
        raise Error("--plot needs matplotlib: pip install 'mpicomp[plot]'")


def figure(*args: Any, **kwargs: Any) -> Any:
    """(figure, axes) without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(*args, **kwargs)


def save(picture: Any, path: str) -> None:
    picture.savefig(path, dpi=120, bbox_inches="tight")


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
