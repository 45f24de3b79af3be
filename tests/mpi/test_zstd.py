"""A lossless stage changes the bytes that travel and nothing else: every result has the bits that it has without."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp
from mpicomp.schedules import ALLREDUCE

WORLD = MPI.COMM_WORLD
P = WORLD.size
SPARSE = "topk:ratio=0.1,block=256|natural"
FEW = pytest.mark.ranks(2, 3)
LARGE = 700_001  # values: enough that wires are lent within a node


def normal(n, dtype="f4", rank=WORLD.rank):
    return np.random.default_rng([rank, n]).standard_normal(n).astype(dtype)


def both(collective, codec="natural"):
    """The result of collective(codec) with and without the stage."""
    plain, coded = collective(codec), collective(f"{codec}|zstd")
    assert plain.tobytes() == coded.tobytes()


@pytest.mark.parametrize("algorithm", ALLREDUCE)
def test_allreduce(comm, algorithm):
    for n in (0, 1, 5003):

        def summed(spec, x=normal(n)):
            out = np.empty_like(x)
            comm.Allreduce(x, out, codec=spec, algorithm=algorithm, segment=8192, seed=1)
            return out

        both(summed)


@pytest.mark.ranks(2)
def test_large_arrays_send_half_the_bytes_and_zeros_next_to_none(comm):
    x, sent = normal(LARGE), []

    def summed(spec, x=x):
        out, before = np.empty_like(x), comm.stats.wire_bytes
        comm.Allreduce(x, out, codec=spec, seed=1)
        sent.append(comm.stats.wire_bytes - before)
        return out

    both(summed)
    assert not summed("natural|zstd", np.zeros(LARGE, "f4")).any()
    assert sent[1] < 0.5 * sent[0] and sent[2] < 0.001 * sent[0]


@FEW
@pytest.mark.parametrize("dtype, down", [("f2", "raw"), ("f8", "natural"), ("f4", "bf16")])
def test_other_types_and_other_codecs_down(comm, dtype, down):
    results = []
    for pair in (("natural", down), ("natural|zstd", down), ("natural", f"{down}|zstd")):
        out = np.empty(3001, dtype)
        comm.Allreduce(normal(3001, dtype), out, codec=pair, seed=1)
        results.append(out.tobytes())
    assert len(set(results)) == 1


@FEW
@pytest.mark.parametrize("algorithm", ["direct", "halving"])
def test_many_arrays_at_once(comm, algorithm):
    """Those of a sparse codec travel one by one, in one message."""

    def summed(spec):
        arrays = [normal(5003).reshape(5003, 1), normal(8000).reshape(80, 100), normal(3)]
        comm.Allreduce(arrays, codec=spec, algorithm=algorithm, segment=16384, seed=1)
        return np.concatenate([each.reshape(-1) for each in arrays])

    both(summed, SPARSE)


@FEW
@pytest.mark.parametrize("feedback", [False, True, "ef21"])
def test_persistent_and_nonblocking(comm, feedback):
    def started(spec):
        x, out = normal(3001), np.empty((2, 3001), "f4")
        request = comm.Allreduce_init(x, out[0], codec=spec, feedback=feedback, seed=1)
        for _ in range(2):
            request.Start()
            request.Wait()
        comm.Iallreduce(x, out[1], codec=spec, seed=2).Wait()
        return out

    both(started, SPARSE)


@FEW
@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_the_rest_of_the_family(comm, algorithm):
    def results(spec):
        gathered, copied, part = np.empty(P * 777, "f4"), normal(1777), np.empty(777, "f4")
        comm.Allgather(normal(777), gathered, codec=spec, algorithm=algorithm, seed=1)
        comm.Bcast(copied, P - 1, codec=spec, algorithm=algorithm, seed=1)
        comm.Reduce_scatter_block(normal(P * 777), part, codec=spec, algorithm=algorithm, seed=1)
        comm.Reduce(normal(777), part, root=0, codec=spec, algorithm="direct", seed=1)
        return np.concatenate([gathered, copied, part])

    both(results)


@FEW
@pytest.mark.parametrize("memory", [None, "difference"])
def test_neighbours_and_gossip(memory):
    ring = mpicomp.ring(mpicomp.Comm(WORLD, "natural", algorithm="direct"))
    n = LARGE if memory is None and P == 2 else 5003

    def gathered(spec):
        rows, x = np.zeros((2, n), "f4"), normal(n)
        request = ring.Neighbor_allgather_init(x, rows, codec=spec, memory=memory, seed=1)
        for _ in range(2):
            request.Start()
            request.Wait()
        worker = mpicomp.gossip.DCD(ring, x, codec=spec, seed=1)
        for _ in range(2):
            worker.mix(x)
        return np.concatenate([rows.reshape(-1), x])

    both(gathered)
    ring.Free()
