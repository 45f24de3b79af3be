"""The tables of docs/training.md, as Markdown."""

from __future__ import annotations

import platform
import statistics
from typing import Any, Callable, Optional, Sequence

from benchmarks import page
from benchmarks.page import number, table

from .results import Final, Results
from .runs import CENTRAL, RING, SEEDS, STEPS, Way

SHOWN_RATES = {"100Mbit": "100 Mbit/s", "1Gbit": "1 Gbit/s"}
HEADS = ["", "digits: accuracy, %", "MB sent", "× less", "text: bits a character", "MB sent", "× less"]


def machine(results: Results) -> str:
    return f"- {page.machine()}\n- Python {platform.python_version()}, torch {_torch()}, MPICH, one thread a rank"


def central(results: Results) -> str:
    return _accuracy(results, CENTRAL)


def ring(results: Results) -> str:
    return _accuracy(results, RING)


def noise(results: Results) -> str:
    """How far natural is from fp32, seed by seed, beside the noise: how far the seeds of fp32 are from each other."""
    rows = []
    for task, scale in (("digits", 100), ("text", 1)):
        exact, natural = (results.final(task, way) for way in CENTRAL[:2])
        if exact and natural and len(exact.qualities) == len(natural.qualities) == len(SEEDS):
            differences = [scale * (b - a) for a, b in zip(exact.qualities, natural.qualities)]
            error = statistics.stdev(differences) / len(differences) ** 0.5
            rows.append(
                [
                    task,
                    *(f"{d:+.2f}" for d in differences),
                    f"{statistics.mean(differences):+.2f} ± {error:.2f}",
                    f"{scale * exact.deviation:.2f}",
                ]
            )
    heads = ["natural − fp32", *(f"seed {seed}" for seed in SEEDS), "mean ± its error", "deviation of fp32's seeds"]
    return table(heads, rows)


def network(results: Results) -> str:
    return "\n\n".join(_network(rate, found) for rate, found in results.networks().items())


def _network(rate: str, found: Sequence[dict[str, Any]]) -> str:
    ways = list(found[0]["ways"])
    times = {way: [seconds(content, way) for content in found] for way in ways}
    first = times[ways[0]]
    rows = []
    for way in ways:
        steps = [content["ways"][way]["rows"][-1][0] for content in found]
        median = statistics.median(t for content in found for t in content["ways"][way]["steps"][1:])
        gains = [a / b for a, b in zip(first, times[way]) if a and b]
        rows.append(
            [
                _shown(way),
                _span(times[way]),
                f"{statistics.geometric_mean(gains):.1f}" if len(gains) == len(found) else "-",
                _span(steps, 0),
                f"{median * 1e3:.0f}",
                number(statistics.median(content["ways"][way]["steps"][0] for content in found), 2),
            ]
        )
    heads = [
        f"**{SHOWN_RATES[rate]}**, {len(found)} seeds",
        "seconds",
        "× faster",
        "steps",
        "ms a step",
        "first step, s",
    ]
    return table(heads, rows)


def seconds(content: dict[str, Any], way: str) -> Optional[float]:
    """To the target, without the first step; None if it was not reached."""
    accuracy, times = content["ways"][way]["rows"][-1][2], content["ways"][way]["steps"]
    return sum(times[1:]) if accuracy >= content["target"] else None


def _span(values: Sequence[Optional[float]], places: int = 1) -> str:
    """The median, and from where to where."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "not reached"
    median = f"{statistics.median(known):.{places}f}"
    return median if min(known) == max(known) else f"{median} ({min(known):.{places}f} to {max(known):.{places}f})"


def _accuracy(results: Results, ways: Sequence[Way]) -> str:
    rows = []
    for way in ways:
        cells = [_cells(results.final(task, way), results.final(task, ways[0]), task) for task in STEPS]
        rows.append([_shown(way.name), *(cell for three in cells for cell in three)])
    return table(HEADS, rows)


def _cells(final: Optional[Final], exact: Optional[Final], task: str) -> list[str]:
    if final is None or exact is None:
        return ["-"] * 3
    scale, places = (100, 1) if task == "digits" else (1, 2)
    quality = f"{scale * final.mean:.{places}f}"
    if len(final.qualities) > 1:
        quality += f" ± {scale * final.deviation:.{places}f}"
    if len(final.qualities) < len(SEEDS):
        quality += f" ({len(final.qualities)} of {len(SEEDS)} seeds)"
    return [quality, number(final.sent / 1e6), f"{exact.sent / final.sent:.3g}"]


def _shown(way: str) -> str:
    return way.replace("|", "\\|")


def _torch() -> str:
    from importlib.metadata import version

    return version("torch")


TABLES: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "central": central,
    "noise": noise,
    "ring": ring,
    "network": network,
}
