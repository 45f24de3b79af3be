"""Which exchange of gradients or parameters takes least time on which network? A prediction by the simulator.

    python examples/who_wins.py [--workers 8 64 1024] [--plot who_wins.png]

The schedules run on virtual ranks once with latency only and once with bandwidth only, which gives a and b of
time = a * latency + b * bytes / bandwidth; arithmetic is free. What is compared is the time of a step, not how many are needed.
"""

from __future__ import annotations

import argparse

import numpy as np

import mpicomp
from mpicomp import simulation, topology
from mpicomp.gossip import Workers
from mpicomp.ports.sim import Network

PARAMETERS = 272_474  # a ResNet-20
BANDWIDTHS = [5e6, 10e6, 30e6, 100e6, 300e6, 1e9]  # bit/s
LATENCIES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 2e-2]  # s
SCHEMES = ("allreduce", "allreduce, natural", "D-PSGD ring", "CHOCO ring, natural")


def seconds(scheme: str, algorithm: str, workers: int, network: Network) -> float:
    """One step of 64 values for each worker."""
    xs = [np.ones(64 * workers, "f4") for _ in range(workers)]
    codec = "natural" if "natural" in scheme else "raw"
    if scheme.startswith("allreduce"):
        return simulation.allreduce(xs, codec=codec, algorithm=algorithm, network=network, segment=1 << 30).seconds
    options = {"codec": "natural", "gamma": 0.1} if "CHOCO" in scheme else {}
    return Workers("choco" if options else "dpsgd", topology.ring(workers), xs, network=network, **options).mix(xs)


def coefficients(scheme: str, algorithm: str, workers: int) -> tuple[float, float]:
    """(a, b) of a scheme. Ring and direct allreduce of many workers, millions of messages, by the law that few obey."""
    if algorithm in ("ring", "direct") and workers > 64:
        size = mpicomp.codec("natural" if "natural" in scheme else "raw").wire_size(64) / 256
        a, b = 2.0 * (workers - 1 if algorithm == "ring" else 1), 2 * (workers - 1) / workers * size
    else:
        a = seconds(scheme, algorithm, workers, Network(latency=1.0, bandwidth=1e30))
        b = seconds(scheme, algorithm, workers, Network(latency=0.0, bandwidth=4 * 64.0 * workers))
    print(f"{workers:5} workers, {scheme:20} {algorithm:8} {a:6.1f} latencies, {b:.3f} transfers", flush=True)
    return a, b


def grid(workers: int, algorithms: list[str]) -> np.ndarray:
    """times[scheme, latency, bandwidth], with the best of these algorithms for allreduce."""
    times = np.empty((len(SCHEMES), len(LATENCIES), len(BANDWIDTHS)))
    for s, scheme in enumerate(SCHEMES):
        able = algorithms if scheme.startswith("allreduce") else [""]
        terms = [coefficients(scheme, algorithm, workers) for algorithm in able]
        for i, latency in enumerate(LATENCIES):
            for j, bandwidth in enumerate(BANDWIDTHS):
                times[s, i, j] = min(a * latency + b * 32 * PARAMETERS / bandwidth for a, b in terms)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 64, 1024])
    parser.add_argument("--allreduce", nargs="+", default=["ring"], help="algorithms to choose from")
    parser.add_argument("--plot", help="a file for the picture")
    args = parser.parse_args()
    grids = {workers: grid(workers, args.allreduce) for workers in args.workers}
    for workers, times in grids.items():
        gains = times[0] / times
        for i, j in ((0, 5), (5, 5), (0, 0), (5, 0)):
            shown = ", ".join(f"{scheme} {gain:.2f}x" for scheme, gain in zip(SCHEMES[1:], gains[1:, i, j]))
            print(f"{workers:5} workers, {LATENCIES[i] * 1e3:g} ms, {BANDWIDTHS[j] / 1e6:g} Mbit/s: {shown}")
    if args.plot:
        plot(grids, args.plot)


def plot(grids: dict, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(1, len(grids), figsize=(4.5 * len(grids), 4.2), squeeze=False)
    for axes, (workers, times) in zip(rows[0], grids.items()):
        best = times.argmin(axis=0)
        axes.imshow(best, origin="lower", cmap="Set2", vmin=0, vmax=7, aspect="auto")
        for i, j in np.ndindex(best.shape):
            axes.text(j, i, f"{times[0, i, j] / times[:, i, j].min():.1f}x", ha="center", va="center", fontsize=8)
        axes.set_xticks(range(len(BANDWIDTHS)), [f"{b / 1e6:g}" for b in BANDWIDTHS])
        axes.set_yticks(range(len(LATENCIES)), [f"{latency * 1e3:g}" for latency in LATENCIES])
        axes.set(title=f"{workers} workers", xlabel="Mbit/s", ylabel="latency, ms")
    colours = [pyplot.Rectangle((0, 0), 1, 1, color=matplotlib.colormaps["Set2"](s / 7)) for s in range(len(SCHEMES))]
    figure.legend(colours, SCHEMES, loc="lower center", ncols=4)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
