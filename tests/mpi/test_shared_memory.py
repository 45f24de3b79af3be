"""Wires that stay where they are between ranks of one node: the same bits as messages, whatever else is under way."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp
from mpicomp.ports.mpi import port_of

WORLD = MPI.COMM_WORLD
LARGE = 700_001  # values: enough that every rank's part is lent
pytestmark = pytest.mark.ranks(2, 4)


def normal(n, seed=0):
    return np.random.default_rng([seed, WORLD.rank]).standard_normal(n).astype(np.float32)


def summed(monkeypatch, x, nodes_of=None, **settings):
    if nodes_of is not None:
        monkeypatch.setenv("MPICOMP_NODES_OF", str(nodes_of))
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct", seed=3, **settings)
    out = np.empty_like(x)
    for _ in range(2):
        comm.Allreduce(x, out, seed=1)
    shared = port_of(comm).pool.arena is not None
    comm.Free()
    monkeypatch.delenv("MPICOMP_NODES_OF", raising=False)
    return out.tobytes(), shared


@pytest.mark.parametrize("segment", [None, 500_000])
def test_lent_wires_give_the_bits_of_messages(monkeypatch, segment):
    x = normal(LARGE)
    lent, shared = summed(monkeypatch, x, segment=segment)
    assert shared
    sent, shared = summed(monkeypatch, x, nodes_of=1, segment=segment)
    assert not shared
    some, _ = summed(monkeypatch, x, nodes_of=2, segment=segment)
    assert lent == sent == some


def test_neighbours_lend_too(monkeypatch):
    x, found = normal(LARGE), []
    for nodes_of in (WORLD.size, 1):
        monkeypatch.setenv("MPICOMP_NODES_OF", str(nodes_of))
        ring = mpicomp.ring(mpicomp.Comm(WORLD, "natural", algorithm="direct"))
        rows, average = np.zeros((2, LARGE), np.float32), np.empty_like(x)
        for _ in range(2):
            ring.Neighbor_allgather(x, rows, seed=1)
        average[:] = ring.neighbor_allreduce(x, seed=1)
        assert (port_of(ring).pool.arena is not None) == (nodes_of > 1)
        found.append(rows.tobytes() + average.tobytes())
        ring.Free()
    assert found[0] == found[1]


def test_many_calls_at_once_run_out_of_shared_memory_and_still_end(monkeypatch):
    monkeypatch.setattr("mpicomp.ports.mpi._ARENA", 1 << 20)
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    xs = [normal(LARGE, seed) for seed in range(5)]
    outs = [np.empty_like(x) for x in xs]
    requests = [comm.Iallreduce(x, out, seed=2) for x, out in zip(xs, outs)]
    for request in reversed(requests):
        request.Wait()
    for x, out in zip(xs, outs):
        expected = np.empty_like(x)
        comm.Allreduce(x, expected, seed=2)
        assert out.tobytes() == expected.tobytes()
    comm.Free()


def test_where_one_rank_cannot_share_nobody_does(monkeypatch):
    if WORLD.rank == WORLD.size - 1:
        monkeypatch.setattr("mpicomp.ports.shared._own", lambda nbytes: (-1, None, bytes(16)))
    out, shared = summed(monkeypatch, normal(LARGE))
    assert not shared


def test_lengths_that_come_and_go_do_not_use_up_the_memory():
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    for n in range(400_000, 1_200_000, 100_003):
        x, out = normal(n), np.empty(n, np.float32)
        comm.Allreduce(x, out)
    arena = port_of(comm).pool.arena
    assert arena._used == 0
    comm.Free()
