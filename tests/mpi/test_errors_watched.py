"""With MPICOMP_TIMEOUT nothing waits for ever, what MPI does itself included, and whoever does something else is found."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD
LAST = WORLD.rank == WORLD.size - 1
pytestmark = pytest.mark.skipif(WORLD.size not in (2, 3, 4), reason="needs 2, 3 or 4 ranks")
IN_PLACE = MPI.IN_PLACE


def ones(n, dtype="f4"):
    return np.ones(n, dtype)


def ring(comm, **settings):
    comm.Allreduce(IN_PLACE, ones(1000), algorithm="ring", **settings)


def small(comm):
    comm.Allreduce(IN_PLACE, ones(100))


def works(comm):
    x = np.full(1000, comm.rank + 1.0, np.float32)
    for algorithm in ("direct", "auto"):
        comm.Allreduce(IN_PLACE, x, codec="raw", algorithm=algorithm)
    assert (x == comm.size * comm.size * (comm.size + 1) / 2).all()


def watched(monkeypatch, seconds):
    monkeypatch.setenv("MPICOMP_TIMEOUT", str(seconds))
    return mpicomp.Comm(WORLD.Dup(), "natural")


# Ranks that do different things

PAIRS = {
    "other operations": (lambda c: c.Allreduce(IN_PLACE, ones(9, "i4")), lambda c: c.Allreduce(IN_PLACE, ones(9, "i4"), MPI.MAX)),
    "sum and maximum": (ring, lambda c: c.Allreduce(IN_PLACE, ones(1000), MPI.MAX)),
    "integers and floats": (lambda c: c.Allreduce(IN_PLACE, ones(100, "i4")), small),
    "integers of other lengths": (lambda c: c.Allreduce(IN_PLACE, ones(9, "i4")), lambda c: c.Allreduce(IN_PLACE, ones(8, "i4"))),
    "small ones of other lengths": (small, lambda c: c.Allreduce(IN_PLACE, ones(101))),
    "small and compressed": (small, ring),
    "other codecs": (ring, lambda c: ring(c, codec="natural:bits=8")),
    "other algorithms": (ring, lambda c: c.Allreduce(IN_PLACE, ones(1000), algorithm="direct")),
    "other seeds": (ring, lambda c: ring(c, seed=3)),
    "Bcast and Allreduce": (lambda c: c.Bcast(ones(100)), small),
    "Bcast and Allreduce of integers": (lambda c: c.Bcast(ones(9, "i8")), lambda c: c.Allreduce(IN_PLACE, ones(9, "i8"))),
    "Allgather and Allreduce, compressed": (
        lambda c: c.Allgather(ones(100), ones(100 * c.size), codec="natural", algorithm="direct"),
        ring,
    ),
    "other roots": (lambda c: c.Bcast(ones(100), root=0), lambda c: c.Bcast(ones(100), root=1)),
    "requests": (lambda c: c.Iallreduce(IN_PLACE, ones(100)).Wait(), lambda c: c.Iallreduce(IN_PLACE, ones(101)).Wait()),
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_ranks_that_do_different_things_all_get_an_error(monkeypatch, what):
    """On a new communicator, and on one where both things were done before by all ranks together."""
    seconds = []
    for before in (False, True):
        comm = watched(monkeypatch, 30)
        if before:
            for both in PAIRS[what]:
                both(comm)
        begin = time.monotonic()
        with pytest.raises((mpicomp.DisagreementError, mpicomp.RemoteError)) as caught:
            PAIRS[what][LAST](comm)
        seconds.append(time.monotonic() - begin)
        texts = WORLD.allgather(str(caught.value))
        assert all("disagree" in text or "other arguments" in text or "another length" in text for text in texts), texts
        works(comm)
        comm.Free()
    assert min(seconds) < 5, seconds  # for busy machines; see the next test


def test_the_error_comes_in_under_two_seconds(monkeypatch):
    """Half of the time, at least: a tenth of a second as a rule, but ranks that share a processor with others may have to wait."""
    seconds = []
    for what in ("other operations", "integers and floats", "other codecs", "other algorithms", "requests"):
        comm = watched(monkeypatch, 30)
        begin = time.monotonic()
        with pytest.raises((mpicomp.DisagreementError, mpicomp.RemoteError)):
            PAIRS[what][LAST](comm)
        seconds.append(time.monotonic() - begin)
        comm.Free()
    assert np.median(seconds) < 2, seconds


@pytest.mark.parametrize("call", [ring, small], ids=["compressed", "by MPI"])
def test_what_is_checked_always_is_checked_in_every_call(monkeypatch, call):
    monkeypatch.setenv("MPICOMP_CHECK", "always")
    comm = mpicomp.Comm(WORLD.Dup(), "natural")
    for _ in range(3):
        call(comm)
        comm.Allreduce(IN_PLACE, ones(77))
    with pytest.raises(mpicomp.DisagreementError, match="77 float32"):
        comm.Allreduce(IN_PLACE, ones(77)) if LAST else call(comm)
    works(comm)
    comm.Free()


# Ranks that do nothing

SILENT = {
    "compressed": (ring, "Allreduce #3"),
    "by MPI": (small, "Allreduce #3"),
    "integers": (lambda c: c.Reduce(ones(5, "i4"), ones(5, "i4")), "Reduce #3"),
    "a request": (lambda c: c.Ibcast(ones(5)).Wait(), "Bcast #3"),
}


@pytest.mark.long
@pytest.mark.parametrize("what", SILENT)
def test_a_rank_that_never_calls_is_named_with_the_collective_and_its_number(monkeypatch, hurry, what):
    call, title = SILENT[what]
    comm = watched(monkeypatch, 30)
    for _ in range(2):
        call(comm)
    hurry(comm, 0.3)
    if LAST:
        WORLD.Barrier()  # the others have given up by then
        with pytest.raises(mpicomp.RemoteError, match="TimeoutError"):
            call(comm)
    else:
        with pytest.raises((mpicomp.TimeoutError, mpicomp.RemoteError)) as caught:
            call(comm)
        waited = r": no answer for (\d+\.\d) s \(MPICOMP_TIMEOUT=0\.3\) from rank "  # longer on a busy machine
        found = re.search(re.escape(title) + waited, str(caught.value))
        assert found and float(found[1]) >= 0.3, str(caught.value)
        assert str(caught.value).endswith(str(comm.size - 1))  # those who wait too are named only if they came late
        WORLD.Barrier()
    works(comm)


def test_a_rank_that_comes_too_late_for_the_first_call_does_no_harm(monkeypatch):
    comm = watched(monkeypatch, 0.3)
    if not LAST:
        with pytest.raises(mpicomp.TimeoutError, match="the first collective of a communicator waits for all ranks"):
            ring(comm)
    WORLD.Barrier()
    monkeypatch.setenv("MPICOMP_TIMEOUT", "30")
    works(comm)


@pytest.mark.parametrize("given", ["soon", "-1", "nan"])
def test_a_timeout_that_is_none_is_refused(monkeypatch, given):
    monkeypatch.setenv("MPICOMP_TIMEOUT", given)
    with pytest.raises(ValueError, match=f"MPICOMP_TIMEOUT='{given}' must be a number of seconds"):
        mpicomp.Comm(WORLD)
