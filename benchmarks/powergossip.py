"""The arithmetic of PowerGossip's step on a model of ResNet-50's shapes, against an uncompressed exchange on a link.

    python benchmarks/powergossip.py [--rank 1] [--iterations 1] [--bandwidth 1Gbit] [-n 7]

Three virtual ranks in a ring, so that each has two neighbours; a step's time is that of all of them divided by three, with
one thread. The exchange: x to both neighbours, as D-PSGD sends it, at the link's rate.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.netlab.units import bits_per_second  # noqa: E402
from mpicomp.gossip import Workers  # noqa: E402
from mpicomp.topology import ring  # noqa: E402


def resnet50() -> list[tuple[int, ...]]:
    """The shapes of its parameters in order: convolutions, each with a norm's two vectors, and the classifier."""
    convolutions = [(64, 3, 7, 7)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions += [(width, channels, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            if block == 0:
                convolutions.append((4 * width, channels, 1, 1))
            channels = 4 * width
    return [shape for c in convolutions for shape in (c, c[:1], c[:1])] + [(1000, channels), (1000,)]


def seconds(rank: int, iterations: int, turns: int) -> list[float]:
    """Of a step of one rank, after two steps to warm up."""
    shapes, random = resnet50(), np.random.default_rng(0)
    xs = [[random.standard_normal(shape, np.float32) for shape in shapes] for _ in range(3)]
    updates = [[np.float32(0.01) * x for x in each] for each in xs]
    workers = Workers("power-gossip", ring(3), xs, rank=rank, iterations=iterations)
    times = []
    for _ in range(turns + 2):
        begin = time.perf_counter()
        workers.step(xs, updates)
        times.append((time.perf_counter() - begin) / len(xs))
    return times[2:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument(
        "--bandwidth", default="1Gbit", help="of the link that the exchange is reckoned for (%(default)s)"
    )
    parser.add_argument("-n", "--turns", type=int, default=7)
    arguments = parser.parse_args()
    n = sum(int(np.prod(shape)) for shape in resnet50())
    exchange = 2 * 4 * n * 8 / bits_per_second(arguments.bandwidth)
    times = seconds(arguments.rank, arguments.iterations, arguments.turns)
    print(f"{n:,} parameters in {len(resnet50())} arrays, rank {arguments.rank}, iterations {arguments.iterations}")
    print(
        f"a step's arithmetic: median {median(times) * 1e3:.1f} ms of one core ({min(times) * 1e3:.1f} to {max(times) * 1e3:.1f})"
    )
    print(
        f"uncompressed exchange at {arguments.bandwidth}: {exchange * 1e3:.0f} ms; arithmetic is {median(times) / exchange:.1%} of it"
    )


if __name__ == "__main__":
    main()
