"""The pictures of docs/performance.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from benchmarks.page import pyplot
from mpicomp import codec

from .results import VALUES, Results, spec_of, wire_bytes
from .tables import MPIS, SHOWN_RATES, places

COLORS = {"100Mbit": "#0b3c5d", "1Gbit": "#3282b8", "10Gbit": "#a9d0e8"}
STYLES = {
    "auto": {"color": "black", "linewidth": 2.2, "zorder": 5},
    "direct": {"color": "tab:blue"},
    "ring": {"color": "tab:orange"},
    "halving": {"color": "tab:green"},
    "gather": {"color": "tab:red"},
    "server": {"color": "tab:purple", "linestyle": ":"},
    "hierarchical": {"color": "tab:brown", "linestyle": "--"},
}


def networks(results: Results, path: Path) -> None:
    """How much faster than MPI alone each codec is, on each network of four hosts."""
    found = {rate: gains for rate in SHOWN_RATES if (gains := results.speedups(f"net-4-{rate}"))}
    specs = list(max(found.values(), key=len, default={}))
    figure, axis = pyplot().subplots(figsize=(9, 0.75 * len(specs) + 1.4))
    height = 0.81 / max(len(found), 1)
    for place, (rate, gains) in enumerate(found.items()):
        at = [index + (place - (len(found) - 1) / 2) * height for index, spec in enumerate(specs) if spec in gains]
        values = [gains[spec] for spec in specs if spec in gains]
        bars = axis.barh(at, values, height * 0.92, color=COLORS[rate], label=SHOWN_RATES[rate])
        axis.bar_label(bars, [f"{value:.1f}×" if value < 20 else f"{value:.0f}×" for value in values], padding=3)
    labels = [f"{spec}\n{wire_bytes(str(codec(spec))) * 8 / VALUES:.2g} bits a value" for spec in specs]
    axis.set_yticks(range(len(specs)), labels)
    axis.set_ylim(len(specs) - 0.4, -0.6)
    axis.set_xscale("log")
    axis.axvline(1, color="lightgray", linewidth=1, zorder=0)
    axis.set_xlim(right=axis.get_xlim()[1] * 1.5)
    ticks = [tick for tick in (0.5, *(1 << k for k in range(10))) if axis.get_xlim()[0] <= tick <= axis.get_xlim()[1]]
    axis.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("times as fast as MPI's own Allreduce (1×), log scale")
    axis.set_title("Allreduce of 40 MB on 4 hosts (emulated network)", fontsize=12)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(title="link of each host", loc="upper right", frameon=False)
    _save(figure, path)


def codecs(results: Results, path: Path) -> None:
    """Encoding and decoding in times of memcpy's speed."""
    rows = results.rows("codecs")
    figure, axis = pyplot().subplots(figsize=(9, 0.4 * len(rows) + 1.2))
    for place, (key, color) in enumerate((("encode", "#3282b8"), ("decode", "#f2a65a"))):
        at = [index + (place - 0.5) * 0.4 for index in range(len(rows))]
        bars = axis.barh(at, [row[key] for row in rows], 0.36, color=color, label=key)
        axis.bar_label(bars, [f"{row[key]:.2f}" for row in rows], padding=3, fontsize=8)
    axis.set_yticks(range(len(rows)), [spec_of(row["codec"]) for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.axvline(1, color="lightgray", linewidth=1, zorder=0)
    axis.set_xlabel("values a second, in times of memcpy of the same float32 values; one thread")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="upper right", frameon=False)
    _save(figure, path)


def sizes(results: Results, path: Path) -> None:
    """Every algorithm with natural, as times of MPI alone, over the size of the array."""
    where = {f"sizes-{mpi}-{ranks}": f"{MPIS[mpi]}, {ranks} ranks, shared memory" for mpi, ranks in places()}
    where["sizes-net-4-1Gbit"] = "MPICH, 4 hosts at 1 Gbit/s"
    figure, axes = pyplot().subplots(2, 3, figsize=(14, 8), sharex=True)
    for axis, (name, title) in zip(axes.T.flat, where.items()):
        for algorithm, style in STYLES.items():
            rows = [row for row in results.rows(name) if row["algorithm"] == algorithm]
            axis.plot([row["size"] for row in rows], [row["speedup"] for row in rows], label=algorithm, **style)
        axis.axhline(1, color="gray", linewidth=1)
        axis.set(title=title, xscale="log", yscale="log")
        axis.set_yticks([0.1, 0.25, 0.5, 1, 2, 4], ["0.1×", "¼×", "½×", "1×", "2×", "4×"])
        axis.set_ylim(0.08, 6)
        axis.minorticks_off()
        axis.set_xticks([2**power for power in (10, 14, 18, 22, 26)], ["1 KB", "16 KB", "256 KB", "4 MB", "64 MB"])
        axis.tick_params(labelbottom=True)
        axis.grid(alpha=0.3)
    last = axes.T.flat[-1]
    last.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    last.legend(handles, labels, loc="center", fontsize=12, frameon=False, title="natural, by")
    for axis in axes[:, 0]:
        axis.set_ylabel("times as fast as MPI alone")
    _save(figure, path)


PICTURES: dict[str, Callable[[Results, Path], None]] = {"networks": networks, "codecs": codecs, "sizes": sizes}


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
