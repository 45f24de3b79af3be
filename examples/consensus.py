"""Eight workers on a ring agree on the mean of their 100 x 100 matrices: what is left against bytes sent.

    python examples/consensus.py [--calls 2000] [--plot consensus.png]

No MPI: the workers are virtual. With mpirun the same methods take mpicomp.ring(comm) in place of the topology.
"""

from __future__ import annotations

import argparse

import numpy as np

from mpicomp import topology
from mpicomp.cli.bench import plots
from mpicomp.cli.numbers import positive
from mpicomp.codecs import names
from mpicomp.gossip import Workers

RING = topology.ring(8)
METHODS = {
    "uncompressed": ("dpsgd", {"rate": RING.diffusion_rate}),
    "CHOCO natural": ("choco", {"codec": "natural", "gamma": 0.9}),
    "CHOCO top 1%": ("choco", {"codec": "topk:ratio=0.01", "gamma": 0.04}),
    "CHOCO sign": ("choco", {"codec": "sign", "gamma": 0.15}),
    "PowerGossip random": ("powergossip", {"warm_start": False}),
    "PowerGossip random s=2": ("powergossip", {"warm_start": False, "iterations": 2}),
    "PowerGossip": ("powergossip", {}),
    "PowerGossip s=2": ("powergossip", {"iterations": 2}),
}
LEVELS = (100.0, 1.0, 1e-2)  # of what is left; it starts at 8.7e3


def consensus(method: str, options: dict, calls: int) -> list[tuple[int, float]]:
    """(bytes sent by a worker, mean_i |X_i - mean|^2) after each call, until nothing but rounding is left."""
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(100, 100)) for _ in range(8)]
    workers, curve = Workers(method, RING, xs, **options), []
    for _ in range(calls):
        workers.mix(xs)
        left = float(np.mean([np.sum((x - np.mean(xs, axis=0)) ** 2) for x in xs]))
        curve.append((workers.bytes_sent[0], left))
        if left < 1e-10:
            break
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=positive, default=2000)
    parser.add_argument("--plot", help="a file for the picture")
    args = parser.parse_args()
    plots.check(args)
    curves = {}
    for name, (method, options) in METHODS.items():
        if options.get("codec", "raw").partition(":")[0] not in names():
            continue
        curves[name] = consensus(method, options, args.calls)
        marks = [k for k in (10, 50, 100, 500, 1000, 2000) if k <= len(curves[name])]
        shown = ", ".join(f"{curves[name][k - 1][1]:.2g} after {k}" for k in marks)
        reached = [next((f"{sent / 1e6:.2g}" for sent, left in curves[name] if left <= level), "-") for level in LEVELS]
        print(
            f"{name:22} {curves[name][0][0]:7,} bytes in the first call; {shown}; MB to {LEVELS}: {', '.join(reached)}",
            flush=True,
        )
    if args.plot:
        plot(curves, args.plot)


def plot(curves: dict, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, curve in curves.items():
        line = "--" if "s=2" in name else "-"  # it lies on that of s=1
        axes.loglog([b / 1e6 for b, _ in curve], [left for _, left in curve], line, label=name)
    axes.set(xlabel="MB sent by each worker", ylabel="mean squared distance to the mean", ylim=(1e-8, 2e4))
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
