"""The pictures of docs/training.md."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Callable, Sequence

from benchmarks.page import pyplot

from .results import Results
from .runs import CENTRAL, RING, STEPS, Way
from .tables import SHOWN_RATES, seconds

QUALITY = {"digits": "test accuracy, %", "text": "test bits a character"}
TITLES = {"digits": "handwritten digits, convolutional network", "text": "next character, transformer"}
MARKS = "osD^vPX*"


def accuracy(results: Results, path: Path) -> None:
    """What was learnt, against what a rank sent; bars are the standard deviation over the seeds."""
    figure, axes = pyplot().subplots(2, 2, figsize=(13, 9), layout="constrained")
    for line, (ways, title) in zip(axes, ((CENTRAL, "4 ranks, allreduce"), (RING, "8 ranks in a ring"))):
        for axis, task in zip(line, STEPS):
            _scatter(axis, results, task, ways)
            axis.set(
                xscale="log", xlabel="MB sent by each rank", ylabel=QUALITY[task], title=f"{TITLES[task]}: {title}"
            )
            _ticks(axis)
        line[1].invert_yaxis()  # better is higher in all of them
        line[1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    figure.savefig(path, dpi=110)


def _scatter(axis: Any, results: Results, task: str, ways: Sequence[Way]) -> None:
    scale = 100 if task == "digits" else 1
    for mark, color, way in zip(MARKS, pyplot().cm.tab10.colors, ways):
        final = results.final(task, way)
        if final:
            at = final.sent / 1e6, scale * final.mean, scale * final.deviation
            axis.errorbar(*at, fmt=mark, color=color, markersize=9, capsize=4, label=way.name)


def network(results: Results, path: Path) -> None:
    """Seconds to the target on each network: the median of the seeds, and from where to where."""
    found = results.networks()
    figure, axes = pyplot().subplots(
        1, max(len(found), 1), figsize=(13, 4), layout="constrained", squeeze=False, sharey=True
    )
    for axis, (rate, contents) in zip(axes[0], found.items()):
        for place, way in enumerate(contents[0]["ways"]):
            times = [time for content in contents if (time := seconds(content, way)) is not None]
            if len(times) == len(contents):
                middle = statistics.median(times)
                color = "#f2a65a" if way.startswith("torch") else "#3282b8"
                reach = [[middle - min(times)], [max(times) - middle]]
                axis.barh(place, middle, 0.7, xerr=reach if len(times) > 1 else None, color=color, capsize=3)
                axis.annotate(
                    f"{middle:.1f}", (max(times), place), xytext=(6, 0), textcoords="offset points", va="center"
                )
        axis.set_yticks(range(len(contents[0]["ways"])), contents[0]["ways"])
        axis.set(xlabel=f"seconds to {contents[0]['target']:.0%} accuracy", title=f"4 hosts at {SHOWN_RATES[rate]}")
        axis.set_xlim(right=axis.get_xlim()[1] * 1.1)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].invert_yaxis()
    figure.savefig(path, dpi=110)


def _ticks(axis: Any) -> None:
    """Plain numbers on a logarithmic axis."""
    low, high = axis.get_xlim()
    ticks = [m * 10**e for e in range(-2, 4) for m in (1, 2, 5) if low <= m * 10**e <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.grid(alpha=0.3)


PICTURES: dict[str, Callable[[Results, Path], None]] = {"accuracy": accuracy, "network": network}
