"""Iallreduce and Allreduce_init: several under way at once, in any order, alongside MPI's own requests."""

from __future__ import annotations

import time

import numpy as np
import pytest
from common import bits, normal
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD


@pytest.fixture(params=["thread", "no thread"])
def progress(request, monkeypatch):
    """Progress by a thread of its own, and in Test and Wait alone."""
    monkeypatch.setenv("MPICOMP_PROGRESS", "1" if request.param == "thread" else "0")


def blocking(comm, x, **given):
    out = np.empty_like(x)
    comm.Allreduce(x, out, **given)
    return bits(out)


def test_waiting_gives_the_bits_of_the_blocking_call(comm, progress):
    x, out = normal(10_001, seed=comm.rank), np.empty(10_001, np.float32)
    request = comm.Iallreduce(x, out, seed=5)
    assert request.Wait() is True
    assert request.Wait() is True and request.Test() is True
    assert (bits(out) == blocking(comm, x, seed=5)).all()


def test_testing_until_it_is_through(comm, progress):
    x, out = normal(50_001, seed=comm.rank), np.empty(50_001, np.float32)
    request, until = comm.Iallreduce(x, out, seed=6), time.monotonic() + 30
    while not request.Test():
        assert time.monotonic() < until
    assert (bits(out) == blocking(comm, x, seed=6)).all()


def test_ranks_may_wait_for_several_in_different_orders(comm, progress):
    xs = [normal(3000 + 500 * k, seed=10 * comm.rank + k) for k in range(6)]
    outs = [np.empty_like(x) for x in xs]
    requests = [comm.Iallreduce(x, out, seed=k) for k, (x, out) in enumerate(zip(xs, outs))]
    for k in np.random.default_rng(comm.rank).permutation(6):
        requests[k].Wait()
    for k, (x, out) in enumerate(zip(xs, outs)):
        assert (bits(out) == blocking(comm, x, seed=k)).all()


def test_blocking_calls_may_come_between(comm, progress):
    x, out = normal(20_000, seed=comm.rank), np.empty(20_000, np.float32)
    request = comm.Iallreduce(x, out, seed=1)
    between = blocking(comm, x, seed=2)
    request.Wait()
    assert (between == blocking(comm, x, seed=2)).all()
    assert (bits(out) == blocking(comm, x, seed=1)).all()


def test_requests_of_mpi_and_ours_are_waited_for_together(comm):
    x, out = normal(2000, seed=comm.rank), np.empty(2000, np.float32)
    small, largest = np.array([comm.rank]), np.empty(1, np.int64)
    requests = [comm.Iallreduce(x, out, seed=3), comm.Iallreduce(small, largest, op=MPI.MAX)]
    assert mpicomp.Request.Waitall(requests)
    assert largest[0] == comm.size - 1 and (bits(out) == blocking(comm, x, seed=3)).all()
    requests = [comm.Iallreduce(x, out, seed=4), comm.Ibarrier()]
    until = time.monotonic() + 30
    while not mpicomp.Request.Testall(requests):
        assert time.monotonic() < until
    requests = [comm.Iallreduce(x, out, seed=4)]
    assert mpicomp.Request.Waitany(requests) == 0


def test_waiting_for_any_finds_each_once_and_then_none(comm, progress):
    assert mpicomp.Request.Waitany([]) == MPI.Request.Waitany([]) == MPI.UNDEFINED
    x = normal(2000, seed=comm.rank)
    requests = [comm.Iallreduce(x, np.empty_like(x)) for _ in range(3)] + [comm.Ibarrier()]
    assert sorted(mpicomp.Request.Waitany(requests) for _ in requests) == [0, 1, 2, 3]
    assert mpicomp.Request.Waitany(requests) == MPI.UNDEFINED
    persistent = comm.Allreduce_init(x, np.empty_like(x))
    assert mpicomp.Request.Waitany([persistent]) == MPI.UNDEFINED  # it was not started
    persistent.Start()
    assert mpicomp.Request.Waitany([*requests, persistent]) == 4


def several(comm):
    """Arrays that we sum, and one that MPI does."""
    return [normal(2000, seed=comm.rank), normal(3000, seed=comm.rank), np.full(3, comm.rank)]


def test_lists_are_waited_for_like_single_arrays(comm, progress):
    later, again = several(comm), several(comm)
    request = comm.Iallreduce(MPI.IN_PLACE, later)
    assert request.under_way and mpicomp.Request.Waitany([request]) == 0
    assert not request.under_way and mpicomp.Request.Waitany([request]) == MPI.UNDEFINED
    assert (later[-1] == sum(range(comm.size))).all()
    with pytest.raises(RuntimeError, match="Allreduce_init"):
        request.Start()
    persistent = comm.Allreduce_init(MPI.IN_PLACE, again)
    for _ in range(2):
        assert not persistent.under_way and mpicomp.Request.Waitany([persistent]) == MPI.UNDEFINED
        persistent.Start()
        assert persistent.under_way and mpicomp.Request.Waitany([request, persistent]) == 1
    persistent.Free()


def test_mpis_own_waitall_refuses_ours(comm):
    request = comm.Iallreduce(normal(100), np.empty(100, np.float32))
    with pytest.raises(TypeError):
        MPI.Request.Waitall([request])
    request.Wait()


def test_requests_on_two_communicators_do_not_meet(comm):
    other = comm.Dup()
    x, a, b = normal(5000, seed=comm.rank), np.empty(5000, np.float32), np.empty(5000, np.float32)
    order = [comm.Iallreduce(x, a, seed=1), other.Iallreduce(x, b, seed=2)]
    for request in order if comm.rank % 2 else order[::-1]:
        request.Wait()
    assert (bits(a) == blocking(comm, x, seed=1)).all() and (bits(b) == blocking(comm, x, seed=2)).all()
    other.Free()


@pytest.mark.host
def test_a_request_makes_progress_while_the_caller_computes(comm, monkeypatch):
    monkeypatch.setenv("MPICOMP_PROGRESS", "1")
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        pytest.skip("MPI has no THREAD_MULTIPLE")
    x, out = normal(5000, seed=comm.rank), np.zeros(5000, np.float32)
    blocking(comm, x)
    request = comm.Iallreduce(x, out)
    until = time.monotonic() + 30
    while not out.all() and time.monotonic() < until:
        time.sleep(0.01)
    assert out.all()
    request.Wait()


# Persistent


def test_a_persistent_request_sums_what_the_buffer_holds_at_each_start(comm, progress):
    x, out = np.empty(3001, np.float32), np.empty(3001, np.float32)
    request = comm.Allreduce_init(x, out, codec="raw")
    for step in range(4):
        x[:] = step + comm.rank
        request.Start()
        request.Wait()
        assert (out == comm.size * step + sum(range(comm.size))).all()
    request.Free()


def test_before_a_start_nothing_is_written_not_even_to_measure(comm):
    x = normal((8 << 20) // 4 + 1, seed=comm.rank)
    given, out = bits(x).copy(), np.full_like(x, 7.0)
    request = comm.Allreduce_init(x, out, algorithm="auto")
    assert (out == 7.0).all()
    request.Start()
    request.Wait()
    request.Free()
    assert (out != 7.0).any() and (bits(x) == given).all()


def test_every_start_draws_new_random_numbers_and_a_seed_repeats_them(comm):
    x = normal(3000, seed=comm.rank)

    def series():
        out, results = np.empty_like(x), []
        request = comm.Allreduce_init(x, out, seed=4)
        for _ in range(3):
            request.Start()
            request.Wait()
            results.append(bits(out).copy())
        request.Free()
        return results

    first, second = series(), series()
    assert all((a == b).all() for a, b in zip(first, second))
    if comm.size > 1:
        assert (first[0] != first[1]).any()


def test_persistent_requests_in_place_and_for_mpi(comm):
    x = np.full(100, comm.rank + 1.0)
    request = comm.Allreduce_init(MPI.IN_PLACE, x, codec="raw", algorithm="raw")
    request.Start()
    request.Wait()
    request.Free()
    assert (x == comm.size * (comm.size + 1) / 2).all()
    whole = np.full(10, comm.rank)
    request = comm.Allreduce_init(MPI.IN_PLACE, whole, op=MPI.MAX)
    request.Start()
    request.Wait()
    request.Free()
    assert (whole == comm.size - 1).all()


def test_starting_twice_and_after_free_are_errors(comm):
    x = normal(100)
    request = comm.Allreduce_init(MPI.IN_PLACE, x)
    assert request.Wait() and request.Test()
    request.Start()
    if comm.size > 1:
        with pytest.raises(RuntimeError, match="under way"):
            request.Start()
    request.Wait()
    request.Free()
    with pytest.raises(RuntimeError, match="freed"):
        request.Start()


@pytest.mark.parametrize("codec", ["natural", "raw"])
def test_starting_lists_twice_and_after_free_are_errors(comm, codec):
    request = comm.Allreduce_init(MPI.IN_PLACE, several(comm), codec=codec)
    assert request.Wait() and request.Test()
    request.Start()
    with pytest.raises(RuntimeError, match="under way"):
        request.Start()
    request.Wait()
    request.Free()
    request.Free()
    with pytest.raises(RuntimeError, match="freed"):
        request.Start()
