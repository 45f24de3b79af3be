"""The protocol of the private communicator: numbers that come round, ranks far ahead, questions that nobody read."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from common import normal
from mpi4py import MPI

import mpicomp
from mpicomp.ports.mpi import port_of

WORLD = MPI.COMM_WORLD
LAST = WORLD.rank == WORLD.size - 1
several = pytest.mark.skipif(WORLD.size == 1, reason="needs two ranks")
pytestmark = pytest.mark.long  # wherever arrays are, messages are the same
few = pytest.mark.skipif(WORLD.size not in (2, 3, 4), reason="needs 2, 3 or 4 ranks")


@pytest.fixture
def narrow(comm):
    """A communicator whose tags tell only 7 calls apart."""
    port = port_of(comm)
    port._call_bits, port.window = 3, 7
    return comm


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_more_requests_may_be_under_way_than_there_are_numbers(narrow, algorithm):
    n, p = 60, narrow.size
    xs = [np.full(300 + i % 3, i + narrow.rank, np.float32) for i in range(n)]
    requests = [narrow.Iallreduce(MPI.IN_PLACE, x, codec="raw", algorithm=algorithm) for x in xs]
    for request in requests if narrow.rank % 2 else requests[::-1]:
        request.Wait()
    for i, x in enumerate(xs):
        assert (x == p * i + p * (p - 1) / 2).all()


@several
def test_a_root_may_be_far_ahead(narrow):
    """It has sent hundreds of messages before the others look for the first."""
    xs = [np.full(64 + i % 5, i * (narrow.rank == 0), np.float32) for i in range(200)]
    if narrow.rank:
        time.sleep(0.05)
    for i, x in enumerate(xs):
        narrow.Bcast(x, codec="raw", algorithm="direct" if i % 2 else "ring")
        if narrow.rank and i % 50 == 0:
            time.sleep(0.005)
    assert all((x == i).all() for i, x in enumerate(xs))


@few
@pytest.mark.usefixtures("curious")
def test_a_freed_communicator_leaves_no_message_behind():
    """A slow rank is asked what it does; the question must not turn up in a communicator that MPI gives the same number."""
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    comm.Allreduce(MPI.IN_PLACE, normal(100))
    if LAST:
        time.sleep(0.2)
    comm.Allreduce(MPI.IN_PLACE, normal(100))
    comm.Free()
    fresh = [WORLD.Dup() for _ in range(3)]
    WORLD.Barrier()
    assert not any(each.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG) for each in fresh)
    for each in fresh:
        each.Free()


def test_a_communicator_may_be_freed_while_a_request_is_under_way():
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="ring")
    x = np.full(50_000, comm.rank + 1.0, np.float32)
    request, p = comm.Iallreduce(MPI.IN_PLACE, x, codec="raw"), comm.size
    comm.Free()
    request.Wait()
    assert (x == p * (p + 1) / 2).all()


def test_communicators_that_some_ranks_never_used_can_be_freed():
    for _ in range(3):
        comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
        half = comm.Split(comm.rank % 2)
        half.Allreduce(MPI.IN_PLACE, normal(100))
        half.Free()
        comm.Free()


@several
def test_a_communicator_that_failed_on_one_rank_only_can_be_freed():
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    comm.Allreduce(MPI.IN_PLACE, normal(100))
    if LAST:
        with pytest.raises(ValueError, match="overlap"):
            x = normal(100)
            comm.Allreduce(x, x)
    comm.Free()


@several
def test_an_interrupted_rank_takes_the_others_with_it(comm):
    """Ctrl-C in the middle of a collective, of which every rank sums a part."""
    comm.Allreduce(MPI.IN_PLACE, normal(10_000))
    if LAST:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            comm.Allreduce(MPI.IN_PLACE, normal(10_000))
        signal.signal(signal.SIGINT, before)
        WORLD.Barrier()
    else:
        WORLD.Barrier()
        with pytest.raises(mpicomp.RemoteError, match=f"rank {comm.size - 1} failed: KeyboardInterrupt"):
            comm.Allreduce(MPI.IN_PLACE, normal(10_000))
    x = np.ones(10, np.float32)
    comm.Allreduce(MPI.IN_PLACE, x, codec="raw")
    assert (x == comm.size).all()


def test_calls_of_a_new_shape_may_begin_before_the_ranks_agreed_on_it(comm):
    """Whether a call asks for agreement must not depend on how fast the answer to the one before came."""
    for n in range(100, 120):
        xs = [np.ones(n, np.float32) for _ in range(4)]
        requests = []
        for x in xs:
            requests.append(comm.Iallreduce(MPI.IN_PLACE, x, codec="raw", algorithm="direct"))
            time.sleep(0.002 * (comm.rank % 2))
        for request in requests:
            request.Wait()
        assert all((x == comm.size).all() for x in xs)


@several
@pytest.mark.parametrize("late", [None, 0, WORLD.size - 1])
def test_disagreement_among_several_requests_is_an_error_on_all(comm, late):
    """By the time that one rank begins its third, the second has failed on another: the next call is the same on all."""
    xs = [np.ones(50 + i + (LAST and i == 1), np.float32) for i in range(3)]
    with pytest.raises((mpicomp.DisagreementError, mpicomp.RemoteError)):
        requests = []
        for i, x in enumerate(xs):
            if i == 2 and late == comm.rank:
                time.sleep(0.1)
            requests.append(comm.Iallreduce(MPI.IN_PLACE, x))
        for request in requests:
            request.Wait()
    x = np.ones(10, np.float32)
    comm.Allreduce(MPI.IN_PLACE, x, codec="raw")
    assert (x == comm.size).all()


@several
def test_a_failure_may_come_while_the_next_call_is_being_planned(comm):
    """The progress thread sees it. A call that began now on what the failure ended would wait for ever."""

    class Broken(mpicomp.codecs.FP16):
        def encode_into(self, x, wire, stream):
            if LAST:
                raise ArithmeticError("broken on purpose")
            super().encode_into(x, wire, stream)

    class Slow(mpicomp.codecs.FP16):
        def __str__(self):  # when the call is described to the other ranks
            time.sleep(0.1)
            return super().__str__()

    requests = [comm.Iallreduce(MPI.IN_PLACE, np.ones(1000, np.float32), codec=Broken(), algorithm="direct")]
    with pytest.raises((ArithmeticError, mpicomp.RemoteError), match="broken on purpose"):
        requests.append(comm.Iallreduce(MPI.IN_PLACE, np.ones(500, np.float32), codec=Slow(), algorithm="direct"))
        requests.pop().Wait()
    with pytest.raises((ArithmeticError, mpicomp.RemoteError), match="broken on purpose"):
        requests.pop().Wait()
    x = np.ones(10, np.float32)
    comm.Allreduce(MPI.IN_PLACE, x, codec="raw")
    assert (x == comm.size).all()
