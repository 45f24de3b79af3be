"""Measure examples/who_wins.py's grid on 8 emulated hosts, for docs/decentralized.md.

    python -m benchmarks.who_wins FILE [--seconds 170]      as root; adds the points that FILE lacks, in that time

A point is the median time of a step of the slowest host, for each scheme: MPI's own Allreduce, mpicomp's as a ring, raw and
with natural, its direct one with natural, D-PSGD and CHOCO with natural on a ring of neighbours, of as many float32 values
as a ResNet-20 has parameters.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.netlab.lab import Lab

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
from who_wins import BANDWIDTHS, LATENCIES, PARAMETERS, SCHEMES  # noqa: E402

HOSTS = 8
BUDGET = 3.0  # seconds of measuring at a point; at least two turns, the first of which does not count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no point is begun")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.file)
        return
    found = json.loads(arguments.file.read_text()) if arguments.file.exists() else {}
    grid = [(latency, bandwidth) for bandwidth in BANDWIDTHS for latency in LATENCIES]
    missing = [point for point in grid if _name(*point) not in found]
    end = time.monotonic() + arguments.seconds
    fresh = arguments.file.with_suffix(".new")
    with Lab(HOSTS, BANDWIDTHS[-1], LATENCIES[0]) as lab:
        for latency, bandwidth in missing:
            if time.monotonic() > end:
                break
            lab.rate(bandwidth)
            lab.delay(latency)
            command = [sys.executable, "-m", "benchmarks.who_wins", str(fresh), "--worker"]
            lab.run(command, timeout=90, stdout=subprocess.DEVNULL)
            found[_name(latency, bandwidth)] = json.loads(fresh.read_text())
            fresh.unlink()
            arguments.file.write_text(json.dumps(found, indent=1))
            print(_name(latency, bandwidth), found[_name(latency, bandwidth)], flush=True)
    print(f"{len(grid) - len(found)} points are missing")


def _name(latency: float, bandwidth: float) -> str:
    return f"{latency:g} {bandwidth:g}"


def worker(file: Path) -> None:
    """On every host: rank 0 writes seconds by scheme."""
    import numpy as np
    from mpi4py import MPI

    import mpicomp

    world = MPI.COMM_WORLD
    x = np.random.default_rng(world.rank).standard_normal(PARAMETERS, dtype=np.float32)
    out, ring, comm = np.empty_like(x), mpicomp.ring(world), mpicomp.Comm(world)
    dpsgd, choco = mpicomp.gossip.DPSGD(ring, x), mpicomp.gossip.Choco(ring, x, codec="natural", gamma=0.5)
    jobs = (  # in the order of SCHEMES
        lambda: world.Allreduce(x, out),
        lambda: comm.Allreduce(x, out, codec="raw", algorithm="ring"),
        lambda: comm.Allreduce(x, out, codec="natural", algorithm="ring"),
        lambda: comm.Allreduce(x, out, codec="natural", algorithm="direct"),
        lambda: dpsgd.mix(x),
        lambda: choco.mix(x),
    )
    times: list[list[float]] = []
    end = time.monotonic() + BUDGET
    while world.bcast(len(times) < 2 or (time.monotonic() < end and len(times) < 9)):
        turn = []
        for job in jobs:
            world.Barrier()
            start = time.perf_counter()
            job()
            turn.append(time.perf_counter() - start)
        times.append(turn)
    slowest = np.array(times)
    world.Allreduce(MPI.IN_PLACE, slowest, MPI.MAX)
    if world.rank == 0:
        # In the first turn connections are made, and the ranks agree on what they do.
        medians = np.median(slowest[1:], axis=0)
        file.write_text(json.dumps(dict(zip(SCHEMES, map(float, medians)))))


if __name__ == "__main__":
    main()
