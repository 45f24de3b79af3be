"""What runs under mpiexec for `make soak`: python tests/soak/ranks.py NAME [NUMBER]. Each prints a line, or fails."""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np
from mpi4py import MPI

import mpicomp
from mpicomp.ports.mpi import _GRAVES, port_of

WORLD = MPI.COMM_WORLD
P, RANK = WORLD.size, WORLD.rank


def resident() -> int:
    """Bytes of memory that this process has in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def small(calls: int = 100_000) -> str:
    """Collectives of every sort, small ones: no memory, no request and no communicator is lost."""
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    x, out, whole, i4 = (np.ones(n, t) for n, t in ((64, "f4"), (64, "f4"), (64 * P, "f4"), (9, "i4")))
    again = comm.Allreduce_init(x, out)

    def start() -> None:
        again.Start()
        again.Wait()

    sorts = [
        lambda: comm.Allreduce(x, out),
        lambda: comm.Allreduce(x, out, codec="qsgd", algorithm="ring"),
        lambda: comm.Allreduce(x, out, algorithm="auto"),
        lambda: comm.Allreduce(MPI.IN_PLACE, i4, MPI.MAX),
        lambda: comm.Iallreduce(x, out).Wait(),
        lambda: comm.Bcast(x, codec="natural"),
        lambda: comm.Allgather(x, whole, codec="natural"),
        start,
    ]
    first = 0
    for call in range(calls):
        sorts[call % len(sorts)]()
        if call == calls // 5:
            first = resident()
    growth, port = resident() - first, port_of(comm)
    assert growth < 1 << 20, f"{growth} bytes more after {calls} calls"
    assert not port.active and not port.ruins and not port.asked and not _GRAVES
    comm.Free()
    return f"{calls} small collectives: {growth / 1024:.0f} kB more than after a fifth of them"


def communicators(number: int = 1000) -> str:
    """Made, used and freed, while one rank is slow now and then and is asked what it does."""
    first = 0
    for i in range(number):
        comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
        comm.Allreduce(MPI.IN_PLACE, np.ones(100, "f4"))
        if i % 100 == 50 and i // 100 % P == RANK:
            time.sleep(0.4)
        comm.Allreduce(MPI.IN_PLACE, np.ones(100, "f4"))
        comm.Free()
        first = first or (resident() if i == number // 5 else 0)
    probe = WORLD.Dup()
    assert not probe.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG) and not _GRAVES
    return f"{number} communicators: {(resident() - first) / 1024:.0f} kB more than after a fifth of them"


def wide() -> str:
    """Every algorithm on as many ranks as there are: the same bits on all, and the right sum."""
    comm = mpicomp.Comm(WORLD, "natural")
    for algorithm in ("direct", "ring", "halving", "gather", "server", "hierarchical"):
        x = np.full(5000, RANK + 1.0, "f4")
        comm.Allreduce(MPI.IN_PLACE, x, codec="raw", algorithm=algorithm)
        assert (x == P * (P + 1) / 2).all(), algorithm
        x = np.random.default_rng(RANK).standard_normal(5000).astype("f4")
        comm.Allreduce(MPI.IN_PLACE, x, algorithm=algorithm)
        first = x.copy()
        MPI.Intracomm.Bcast(WORLD, first)
        assert (first.view("u4") == x.view("u4")).all(), algorithm
    return f"{P} ranks: every algorithm"


def threads(number: int = 4) -> str:
    """Each thread has a communicator of its own, and they call at the same time."""
    assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
    comms = [mpicomp.Comm(WORLD.Dup(), "raw", algorithm="direct") for _ in range(number)]
    wrong: list[int] = []

    def work(index: int) -> None:
        for call in range(200):
            x = np.full(1000, index + call + RANK, "f4")
            if call % 2:
                comms[index].Allreduce(MPI.IN_PLACE, x)
            else:
                comms[index].Iallreduce(MPI.IN_PLACE, x).Wait()
            if not (x == P * (index + call) + P * (P - 1) / 2).all():
                wrong.append(call)

    started = [threading.Thread(target=work, args=(index,)) for index in range(number)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not wrong
    return f"{number} threads, 200 collectives each"


def fork() -> str:
    """Processes that torch's data loader forks in the middle of training do not disturb it."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    comm = mpicomp.Comm(WORLD, "raw", algorithm="ring")
    data = TensorDataset(torch.arange(64.0))
    for _ in range(3):
        x = np.ones(300_000, "f4")
        request = comm.Iallreduce(MPI.IN_PLACE, x)
        seen = sum(float(batch[0].sum()) for batch in DataLoader(data, batch_size=8, num_workers=2))
        request.Wait()
        assert seen == 63 * 32 and (x == P).all()
    return "forked data loaders during requests"


def big(n: int = (1 << 31) + 5) -> str:
    """More than 2^31 elements, and bytes: float16, in place."""
    x = np.ones(n, "f2")
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    begin = time.monotonic()
    comm.Allreduce(MPI.IN_PLACE, x)
    seconds = time.monotonic() - begin
    assert all((x[at : at + (1 << 26)] == P).all() for at in range(0, n, 1 << 26))
    return f"Allreduce of {n} float16 on {P} ranks: right, {seconds:.1f} s"


if __name__ == "__main__":
    said = globals()[sys.argv[1]](*map(int, sys.argv[2:]))
    WORLD.Barrier()
    if RANK == 0:
        print(said, flush=True)
