"""What a network gives to plain MPI: round trip, one-way goodput, Allreduce against the ideal time.

Run it through netlab or any mpiexec. The ideal is 2(n-1)/n * bytes * 8 / rate; the rate is NETLAB_BANDWIDTH.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
BANDWIDTH = float(os.environ.get("NETLAB_BANDWIDTH", "nan"))


def times(action, repeats: int) -> list[float]:
    """Sorted times of the slowest rank."""
    taken = []
    for _ in range(repeats + 1):
        comm.Barrier()
        start = time.perf_counter()
        action()
        taken.append(comm.allreduce(time.perf_counter() - start, op=MPI.MAX))
    return sorted(taken[1:])  # the first opens connections


def ping_pong(x) -> None:
    if comm.rank == 0:
        comm.Send(x, 1)
        comm.Recv(x, 1)
    elif comm.rank == 1:
        comm.Recv(x, 0)
        comm.Send(x, 0)


def say(line: str) -> None:
    if comm.rank == 0:
        print(line, flush=True)


def main(megabytes: list[int], repeats: int = 7) -> None:
    names = comm.gather(MPI.Get_processor_name())
    say(f"{MPI.Get_library_version().split(',')[0].splitlines()[0]} on {names}")
    small = np.zeros(1, "u1")
    rtt = times(lambda: ping_pong(small), 50)
    say(f"round trip of 1 byte: median {rtt[25] * 1e3:.3f} ms, min {rtt[0] * 1e3:.3f}")
    large = np.zeros(10_000_000, "u1")
    seconds = times(lambda: ping_pong(large), 3)[1] / 2
    say(f"goodput of 10 MB: {large.nbytes * 8 / seconds / 1e6:.0f} Mbit/s")
    for size in megabytes:
        x = np.ones(size * 250_000, np.float32)
        out = np.empty_like(x)
        taken = times(partial(comm.Allreduce, x, out), repeats)
        assert (out == comm.size).all()
        ideal = 2 * (comm.size - 1) / comm.size * x.nbytes * 8 / BANDWIDTH
        median = taken[repeats // 2]
        measured = f"median {median:.4f} s, min {taken[0]:.4f}"
        say(f"Allreduce {size} MB: {measured}; ideal {ideal:.4f}, x{median / ideal:.2f}")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [4, 40])
