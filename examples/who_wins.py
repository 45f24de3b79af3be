"""Which exchange of gradients or parameters takes least time on which network? Predictions, and what was measured.

    python examples/who_wins.py [--workers 8 64 1024] [--measured who_wins.json] [--plot who_wins.png]

The schedules run on virtual ranks, or a formula stands in for them where there are many, with the speed of the codec
measured on this machine (mpicomp/prediction.py). `python -m benchmarks.who_wins who_wins.json` measures the same grid on 8
emulated hosts. What is compared is the time of a step, not how many are needed.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mpicomp import codec, prediction, speeds, topology
from mpicomp.cli.bench import plots
from mpicomp.ports.sim import Costs, Network

PARAMETERS = 272_474  # a ResNet-20
BANDWIDTHS = [5e6, 20e6, 100e6, 300e6, 1e9]  # bit/s
LATENCIES = [1e-4, 1e-3, 5e-3, 2e-2]  # s
SCHEMES = {  # each with its codec, and the algorithms of which the best is taken; none: an exchange with the neighbours
    "Allreduce, MPI": ("raw", ("ring", "halving")),
    "Allreduce, ring": ("raw", ("ring",)),
    "Allreduce, ring, natural": ("natural", ("ring",)),
    "Allreduce, direct, natural": ("natural", ("direct",)),
    "neighbours, D-PSGD": ("raw", ()),
    "neighbours, CHOCO, natural": ("natural", ()),
}
COMPARISONS = {
    "Allreduce as a ring": (1, 2, 4, 5),
    "Allreduce by MPI, and by direct exchange": (0, 3, 4, 5),
}
SIDES = ("Allreduce", "Allreduce, natural", "neighbours", "neighbours, natural")
GOODPUT = 1448 / 1514  # what TCP/IP leaves of a link
WHOLE = 1 << 40  # MPI's own Allreduce does not cut the array
FEW = 256  # workers of a ring that is simulated: each meets two others only, however many there are


def seconds(scheme: str, workers: int, network: Network, costs: dict[str, Costs]) -> float:
    """One step. MPI's own Allreduce is taken for the better of a ring and recursive halving."""
    spec, algorithms = SCHEMES[scheme]
    if not algorithms:
        return prediction.gossip(PARAMETERS, topology.ring(min(workers, FEW)), spec, network, costs[spec]).seconds
    cut = WHOLE if scheme == "Allreduce, MPI" else None
    return min(
        prediction.allreduce(PARAMETERS, workers, spec, name, network, costs[spec], cut).seconds for name in algorithms
    )


def grid(workers: int, ranks_per_core: float) -> np.ndarray:
    """times[scheme, latency, bandwidth]."""
    overhead = speeds.message() * ranks_per_core
    costs = {}
    for spec in ("raw", "natural"):
        measured = speeds.costs(codec(spec), PARAMETERS)
        costs[spec] = Costs(*(speed / ranks_per_core for speed in vars(measured).values()))
    times = np.empty((len(SCHEMES), len(LATENCIES), len(BANDWIDTHS)))
    for (s, scheme), i, j in product(enumerate(SCHEMES), range(len(LATENCIES)), range(len(BANDWIDTHS))):
        network = Network(LATENCIES[i], BANDWIDTHS[j] / 8 * GOODPUT, overhead=overhead)
        times[s, i, j] = seconds(scheme, workers, network, costs)
    return times


def read(path: Path) -> np.ndarray:
    """As grid, measured; NaN where it was not."""
    found = json.loads(path.read_text())
    times = np.full((len(SCHEMES), len(LATENCIES), len(BANDWIDTHS)), np.nan)
    for (s, scheme), i, j in product(enumerate(SCHEMES), range(len(LATENCIES)), range(len(BANDWIDTHS))):
        times[s, i, j] = found.get(f"{LATENCIES[i]:g} {BANDWIDTHS[j]:g}", {}).get(scheme, np.nan)
    return times


def several(text: str) -> int:
    if int(text) < 2:
        raise ValueError
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=several, nargs="+", default=[8, 64, 1024])
    parser.add_argument("--measured", type=Path, help="what was measured on the emulated network, for the first panel")
    parser.add_argument("--plot", help="a file for the picture")
    args = parser.parse_args()
    plots.check(args)
    grids = {"8 hosts, measured": read(args.measured)} if args.measured else {}
    for workers in args.workers:
        alike = args.measured and workers == 8  # the emulated hosts share this machine's cores
        grids[f"{workers} workers, predicted"] = grid(workers, 8 / (os.cpu_count() or 1) if alike else 1.0)
    for title, times in grids.items():
        for i, j in ((0, -1), (-1, -1), (0, 0), (-1, 0)):
            shown = ", ".join(f"{scheme} {1e3 * t:.3g} ms" for scheme, t in zip(SCHEMES, times[:, i, j]))
            print(f"{title}: {LATENCIES[i] * 1e3:g} ms, {BANDWIDTHS[j] / 1e6:g} Mbit/s: {shown}")
    if args.measured and 8 in args.workers:
        compare(grids["8 hosts, measured"], grids["8 workers, predicted"])
    if args.plot:
        plot(grids, args.plot)


def compare(measured: np.ndarray, predicted: np.ndarray) -> None:
    """How far the predictions are off, and how often they name the winner."""
    for scheme, ratio in zip(SCHEMES, predicted / measured):
        low, middle, high = np.nanquantile(ratio, [0, 0.5, 1])
        print(f"predicted / measured, {scheme}: median {middle:.2f}, from {low:.2f} to {high:.2f}")
    known = ~np.isnan(measured).any(axis=0)
    for title, chosen in COMPARISONS.items():
        right = measured[[*chosen]].argmin(axis=0) == predicted[[*chosen]].argmin(axis=0)
        print(f"{title}: the predicted winner won at {(right & known).sum()} of {known.sum()} points")


def plot(grids: dict, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = matplotlib.colormaps["Set2"]
    figure = pyplot.figure(figsize=(4.2 * len(grids), 4.0 * len(COMPARISONS)), layout="constrained")
    for part, (name, chosen) in zip(figure.subfigures(len(COMPARISONS), 1), COMPARISONS.items()):
        part.suptitle(name, fontweight="bold")
        for axes, (title, times) in zip(part.subplots(1, len(grids), squeeze=False)[0], grids.items()):
            _map(axes, times[[*chosen]], colours)
            axes.set(title=title, xlabel="Mbit/s", ylabel="latency, ms")
    patches = [pyplot.Rectangle((0, 0), 1, 1, color=colours(s / 7)) for s in range(len(SIDES))]
    figure.legend(patches, SIDES, loc="outside lower center", ncols=len(SIDES))
    figure.savefig(path, dpi=100)


def _map(axes: Any, times: np.ndarray, colours: Any) -> None:
    """Who is fastest, and how many times faster than the first."""
    best = np.where(np.isnan(times).any(axis=0), np.nan, np.nan_to_num(times, nan=np.inf).argmin(axis=0))
    axes.imshow(best, origin="lower", cmap=colours, vmin=0, vmax=7, aspect="auto")
    for i, j in zip(*np.nonzero(~np.isnan(best))):
        axes.text(j, i, f"{times[0, i, j] / times[:, i, j].min():.1f}x", ha="center", va="center", fontsize=8)
    axes.set_xticks(range(len(BANDWIDTHS)), [f"{b / 1e6:g}" for b in BANDWIDTHS])
    axes.set_yticks(range(len(LATENCIES)), [f"{latency * 1e3:g}" for latency in LATENCIES])


if __name__ == "__main__":
    main()
