"""Speed of the CPU kernels, one thread, as a ratio to memcpy of the same values.

    python benchmarks/kernels.py [--mb 64] [--runs 15] [--level v4] [--kind f32]

A ratio above 1 is faster than memcpy of --mb megabytes between touched arrays. Runs are interleaved and their
medians are compared. The clock is the thread's own, so that other work on the machine counts less.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import time

import numpy as np

from mpicomp import launch
from mpicomp.reference import find
from mpicomp.reference.natural import EIGHT, NINE, SIX, TWELVE

FORMATS = {"f32": NINE, "bf16": NINE, "f16": SIX, "f64": TWELVE}
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8}


def jobs(kind: str, nbytes: int) -> dict:
    """Name -> what to time."""
    n = nbytes // BYTES[kind]
    sums = np.float64 if kind == "f64" else np.float32
    acc = np.random.default_rng(0).standard_normal(n).astype(sums)
    x = np.empty(n, {"f32": np.float32, "f64": np.float64}.get(kind, np.uint16))
    find(f"round_{kind}")(acc, n, x)
    y = np.ones_like(x)
    work = {"memcpy": lambda: ctypes.memmove(y.ctypes.data, x.ctypes.data, nbytes)}
    for codec, fmt in [("natural", FORMATS[kind])] + [("natural8", EIGHT)] * (kind == "f32"):
        wires = [np.ones(fmt.size(n), np.uint8) for _ in range(4)]

        def bound(verb, *args, codec=codec):
            call = launch.kernel(f"{codec}_{verb}_{kind}")
            return lambda: call(*args)

        for k in range(3):
            launch.kernel(f"{codec}_encode_{kind}")(x, n, wires[k], k, 0, 0, 0)
        work[f"{codec} encode"] = bound("encode", x, n, wires[3], 1, 0, 0, 0)
        work[f"{codec} decode"] = bound("decode", wires[0], n, y)
        work[f"{codec} add"] = bound("add", wires[0], n, acc, 0.5)
        work[f"{codec} reduce 1+own"] = bound("reduce", wires[:1], 1, 0, x, n, 1.0, wires[3], 1, 0, 0, 0)
        work[f"{codec} reduce 3+own"] = bound("reduce", wires[:3], 3, 0, x, n, 1.0, wires[3], 1, 0, 0, 0)
    plain = launch.kernel(f"scale_add_{kind}"), launch.kernel(f"round_{kind}")
    work["scale_add"] = lambda: plain[0](x, n, acc, 0.5)
    work["round"] = lambda: plain[1](acc, n, y)
    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=64)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--level", default="")
    parser.add_argument("--kind", default="f32", choices=BYTES)
    args = parser.parse_args()
    os.environ["MPICOMP_CPU"] = args.level
    nbytes = int(args.mb * 2**20)
    work = jobs(args.kind, nbytes)
    repeat = max(1, int(16 / args.mb))
    times: dict = {name: [] for name in work}
    for _ in range(args.runs + 1):
        for name, job in work.items():
            job()
            start = time.thread_time()
            for _ in range(repeat):
                job()
            times[name].append((time.thread_time() - start) / repeat)
    base = statistics.median(times["memcpy"][1:])
    for name, each in times.items():
        median = statistics.median(each[1:])
        print(f"{name:22s} {nbytes / median / 1e9:7.2f} GB/s of values   {base / median:5.2f} x memcpy")


if __name__ == "__main__":
    main()
