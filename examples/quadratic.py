"""Eight workers on a ring minimise the sum of |x - b_i|^2 / 2 with noisy gradients: which methods get there?

    python examples/quadratic.py [--steps 3000] [--plot quadratic.png]

No MPI: the workers are virtual. Naive compression stays away from the minimum; DCD, CHOCO and PowerGossip end where
uncompressed D-PSGD ends; ECD needs a quantiser of bounded error.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from mpicomp import topology
from mpicomp.cli.bench import plots
from mpicomp.cli.numbers import positive
from mpicomp.codecs import names
from mpicomp.gossip import Workers

RING = topology.ring(8)
LR, NOISE, N = 0.01, 0.1, 100
METHODS = {
    "D-PSGD": ("dpsgd", {}),
    "naive natural": ("naive", {"codec": "natural"}),
    "DCD natural": ("dcd", {"codec": "natural"}),
    "ECD natural": ("ecd", {"codec": "natural"}),
    "ECD grid 0.01": ("ecd", {"codec": "grid:step=0.01,bits=16"}),
    "CHOCO natural": ("choco", {"codec": "natural", "gamma": 0.5}),
    "CHOCO top 10%": ("choco", {"codec": "topk:ratio=0.1", "gamma": 0.1}),
    "PowerGossip": ("powergossip", {}),
}
LINES = {"8": "-", "4": "--", "3": "-.", "2": ":"}
for _bits in LINES:
    for _label, _method in (("naive", "naive"), ("DCD", "dcd"), ("ECD", "ecd")):
        METHODS[f"{_label} {_bits} bits"] = (_method, {"codec": f"dithering:bits={_bits},p=inf"})


def train(method: str, options: dict, steps: int) -> list[float]:
    """The squared error of the workers' mean after each step."""
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(8, N))
    shape = (10, 10) if method == "powergossip" else (N,)
    xs, curve = [np.zeros(shape) for _ in range(8)], []
    workers = Workers(method, RING, xs, **options)
    for _ in range(steps):
        gradients = [x.ravel() - b + NOISE * rng.normal(size=N) for x, b in zip(xs, targets)]
        workers.step(xs, [-LR * g.reshape(shape) for g in gradients])
        curve.append(float(np.sum((np.mean(xs, axis=0).ravel() - targets.mean(axis=0)) ** 2)))
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=positive, default=3000)
    parser.add_argument("--plot", help="a file for the picture")
    args = parser.parse_args()
    plots.check(args)
    warnings.simplefilter("ignore", RuntimeWarning)  # ECD warns; here it is shown why
    curves = {}
    for name, (method, options) in METHODS.items():
        if options.get("codec", "raw").partition(":")[0] in names():
            curves[name] = train(method, options, args.steps)
            print(f"{name:14} squared error of the mean {curves[name][-1]:.2g}", flush=True)
    if args.plot:
        plot(curves, args.plot)


def plot(curves: dict, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(12, 5), sharey=True, layout="constrained")
    for name, curve in curves.items():
        method, bits = name.split()[0], name.removesuffix(" bits")[-1]
        few = name.endswith("bits")  # a colour for each method, a line for each number of bits
        style = {"color": f"C{['naive', 'DCD', 'ECD'].index(method)}", "linestyle": LINES[bits]} if few else {}
        panels[int(few)].semilogy(range(1, len(curve) + 1, 10), curve[::10], label=name, linewidth=1, **style)
    for axes in panels:
        axes.set(xlabel="step", ylim=(1e-4, 1e3))
        axes.legend(ncols=3, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12))
    panels[0].set_ylabel("squared error of the mean")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
