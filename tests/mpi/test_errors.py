"""Disagreement and bad input: one clear error on every rank, nothing written, and the communicator goes on working."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pytest
from common import normal
from mpi4py import MPI

import mpicomp
from mpicomp.errors import BufferError, Error
from mpicomp.ports.mpi import port_of

WORLD = MPI.COMM_WORLD
LAST = WORLD.rank == WORLD.size - 1
pytestmark = pytest.mark.ranks(1, 2, 3, 4)
several = pytest.mark.skipif(WORLD.size == 1, reason="needs two ranks")


@pytest.fixture(params=["first call", "later call"])
def comm(comm, request):
    """On a communicator without and with a private one that has agreed upon things already."""
    if request.param == "later call":
        comm.Allreduce(MPI.IN_PLACE, normal(100))
        comm.Allreduce(MPI.IN_PLACE, normal(1000), codec="natural:bits=8")
    return comm


def works(comm):
    for algorithm in ("direct", "auto"):
        x = np.full(1000, comm.rank + 1.0, np.float32)
        comm.Allreduce(MPI.IN_PLACE, x, codec="raw", algorithm=algorithm)
        assert (x == comm.size * (comm.size + 1) / 2).all()


def fails_everywhere(comm, call, kinds=(mpicomp.DisagreementError, mpicomp.RemoteError), words=""):
    """call() raises on every rank, the text of some rank has the words, and then the communicator works."""
    with pytest.raises(kinds) as caught:
        call()
    assert isinstance(caught.value, Error)
    texts = WORLD.allgather(str(caught.value))
    assert all(texts) and any(words in text for text in texts), texts
    works(comm)
    return texts


# Disagreement


@several
@pytest.mark.parametrize(
    "mine, theirs, words",
    [
        ({"n": 100}, {"n": 101}, "101 float32"),
        ({"n": 100}, {"n": 100_000}, "100000 float32"),
        ({"dtype": "f4"}, {"dtype": "f8"}, "float64"),
        ({"codec": "natural"}, {"codec": "natural:rounding=nearest"}, "codec=natural:rounding=nearest"),
        ({"codec": "natural"}, {"codec": ("natural", "raw")}, "down=raw"),
        ({"seed": 1}, {"seed": 2}, "seed=2"),
        ({"algorithm": "direct"}, {"algorithm": "raw"}, "algorithm=raw"),
        ({"segment": 1 << 16}, {"segment": 1 << 17}, "segment="),
    ],
)
@pytest.mark.long
@pytest.mark.usefixtures("curious")
def test_ranks_that_disagree_all_get_one_error(comm, mine, theirs, words):
    given = {"n": 100, "dtype": "f4", **(theirs if LAST else mine)}
    x = np.ones(given.pop("n"), given.pop("dtype"))
    texts = fails_everywhere(comm, lambda: comm.Allreduce(MPI.IN_PLACE, x, **given), words="")
    assert (x == 1).all()
    assert any(words in text or "other arguments" in text or "another length" in text for text in texts)


@several
def test_the_error_shows_what_each_rank_asked_for(comm):
    x = np.ones(50 if LAST else 60, np.float32)
    with pytest.raises(mpicomp.DisagreementError) as caught:
        comm.Allreduce(MPI.IN_PLACE, x)
    text = str(caught.value)
    assert "the ranks disagree about this collective" in text
    assert "50 float32" in text and "60 float32" in text and f"rank {comm.size - 1}: " in text
    assert len(set(WORLD.allgather(text))) == 1
    works(comm)


@pytest.mark.long
@several
@pytest.mark.usefixtures("curious")
def test_shapes_agreed_upon_before_are_told_apart_later(comm):
    """Each rank knows both shapes; now they call with different ones."""
    for n in (500, 700):
        comm.Allreduce(MPI.IN_PLACE, np.ones(n, np.float32))
    x = np.ones(500 if LAST else 700, np.float32)
    fails_everywhere(comm, lambda: comm.Allreduce(MPI.IN_PLACE, x))


@pytest.mark.long
@several
@pytest.mark.usefixtures("curious")
def test_auto_tells_them_apart_too(comm, monkeypatch):
    monkeypatch.setenv("MPICOMP_CALIBRATE", "0")
    auto = mpicomp.Comm(comm, algorithm="auto")
    for sizes in ((100_000, 100_000), (100_000, 120_000)):
        x = np.ones(sizes[LAST], np.float32)
        if sizes[0] == sizes[1]:
            auto.Allreduce(MPI.IN_PLACE, x)
        else:
            fails_everywhere(auto, lambda x=x: auto.Allreduce(MPI.IN_PLACE, x))


@several
def test_the_error_comes_in_under_two_seconds(comm):
    """Half of the time, at least. Shapes that all ranks agreed upon before are told apart after a quarter of a second."""
    for n in (500, 700):
        comm.Allreduce(MPI.IN_PLACE, np.ones(n, np.float32))
    seconds = []
    for _ in range(3):
        begin = time.monotonic()
        with pytest.raises((mpicomp.DisagreementError, mpicomp.RemoteError)):
            comm.Allreduce(MPI.IN_PLACE, np.ones(500 if LAST else 700, np.float32))
        seconds.append(time.monotonic() - begin)
        works(comm)
    assert np.median(seconds) < 2, seconds


@several
def test_disagreement_about_requests_is_told_when_waited_for(comm):
    x = np.ones(50 if LAST else 60, np.float32)
    fails_everywhere(comm, lambda: comm.Iallreduce(MPI.IN_PLACE, x).Wait())


@pytest.mark.long
@several
def test_checking_always_finds_it_every_time(comm, monkeypatch):
    monkeypatch.setenv("MPICOMP_CHECK", "always")
    for _ in range(3):
        comm.Allreduce(MPI.IN_PLACE, np.ones(40, np.float32))
    for _ in range(2):
        fails_everywhere(comm, lambda: comm.Allreduce(MPI.IN_PLACE, np.ones(30 + 10 * LAST, np.float32)))


# Bad input


def read_only():
    x = np.ones(100, np.float32)
    x.flags.writeable = False
    return x


SHARED = np.zeros(150, np.float32)
BAD = {
    "read-only output": (lambda: (np.ones(100, np.float32), read_only()), {}, "recvbuf is read-only"),
    "read-only in place": (lambda: (MPI.IN_PLACE, read_only()), {}, "recvbuf is read-only"),
    "same array twice": (lambda: (SHARED, SHARED), {}, "overlap"),
    "overlap": (lambda: (SHARED[:100], SHARED[50:]), {}, "sendbuf and recvbuf overlap"),
    "gaps in the input": (
        lambda: (np.ones(200, np.float32)[::2], np.ones(100, np.float32)),
        {},
        "sendbuf is not contiguous",
    ),
    "gaps in the output": (lambda: (MPI.IN_PLACE, np.ones(200, np.float32)[::2]), {}, "recvbuf is not contiguous"),
    "wrong length": (
        lambda: (np.ones(100, np.float32), np.ones(90, np.float32)),
        {},
        "sendbuf has 100 values and recvbuf 90",
    ),
    "wrong type": (lambda: (np.ones(100, np.float32), np.ones(100)), {}, "sendbuf holds float32 and recvbuf float64"),
    "count too large": (
        lambda: (MPI.IN_PLACE, [np.ones(100, np.float32), 101, MPI.FLOAT]),
        {},
        "recvbuf: count 101 does not fit",
    ),
    "unknown codec": (lambda: (MPI.IN_PLACE, np.ones(100, np.float32)), {"codec": "naturl"}, "did you mean 'natural'"),
    "unknown setting": (
        lambda: (MPI.IN_PLACE, np.ones(100, np.float32)),
        {"codec": "natural:bit=8"},
        "did you mean 'bits'",
    ),
    "unknown algorithm": (
        lambda: (MPI.IN_PLACE, np.ones(100, np.float32)),
        {"algorithm": "rng"},
        "no algorithm named 'rng'",
    ),
    "wrong seed": (lambda: (MPI.IN_PLACE, np.ones(100, np.float32)), {"seed": "x"}, "seed='x'"),
    "seed that is no number": (lambda: (MPI.IN_PLACE, np.ones(100, np.float32)), {"seed": "7"}, "seed='7'"),
    "half a seed": (lambda: (MPI.IN_PLACE, np.ones(100, np.float32)), {"seed": 1.5}, "seed=1.5"),
    "list and list": (lambda: ([np.ones(100, np.float32)], [np.ones(100, np.float32)]), {}, "summed in place"),
    "whole numbers into floats": (
        lambda: (np.ones(100, np.int32), np.ones(100, np.float32)),
        {},
        "sendbuf holds int32 and recvbuf float32",
    ),
    "floats into whole numbers": (
        lambda: (np.ones(100, np.float32), [np.ones(100, np.int32), MPI.INT]),
        {},
        "sendbuf holds float32 and recvbuf MPI_INT",
    ),
    "complex numbers into pairs": (
        lambda: (np.ones(50, np.complex64), np.ones(100, np.float32)),
        {},
        "sendbuf holds complex64 and recvbuf float32",
    ),
    "no output": (lambda: (np.ones(100, np.float32),), {}, "recvbuf must be one array, not None"),
    "nothing at all": (lambda: (None,), {}, "recvbuf must be one array, not None"),
    "half a count": (
        lambda: (MPI.IN_PLACE, [np.ones(100, np.float32), 1.5, MPI.FLOAT]),
        {},
        "recvbuf: count 1.5 must be a whole number",
    ),
    "displacement too large": (
        lambda: (MPI.IN_PLACE, [np.ones(100, np.float32), (99, 2), MPI.FLOAT]),
        {},
        "recvbuf: count 99 from 2 on does not fit",
    ),
    "codec that cannot carry it": (
        lambda: (MPI.IN_PLACE, np.ones(100)),
        {"codec": "natural:bits=8"},
        "cannot carry float64",
    ),
}
each_mistake = pytest.mark.parametrize("mistake", BAD)


@each_mistake
def test_bad_input_on_all_ranks_is_an_error_on_all(comm, mistake):
    make, given, words = BAD[mistake]
    texts = fails_everywhere(comm, lambda: comm.Allreduce(*make(), **given), (ValueError, mpicomp.RemoteError), words)
    assert any(text for text in texts)


def test_bad_input_is_found_in_small_arrays_that_were_left_to_mpi_before_too():
    comm = mpicomp.Comm(WORLD.Dup(), "natural")
    if WORLD.size == 1:
        comm = mpicomp.Comm(comm, algorithm="direct")  # one rank alone leaves nothing to MPI
    x = np.ones(100, np.float32)
    for _ in range(3):
        for mistake, (make, given, words) in BAD.items():
            if not given and "list" not in mistake and mistake != "no output":
                with pytest.raises((BufferError, mpicomp.RemoteError)) as caught:
                    comm.Allreduce(*make())
                assert any(words in text for text in WORLD.allgather(str(caught.value)))
        out = np.empty(100, np.float32)
        comm.Allreduce(x, out)
        assert (out == comm.size).all()
        ends = np.ones(200, np.float32)  # next to each other is not over each other
        comm.Allreduce(ends[:100], ends[100:])
        comm.Allreduce(ends[100:], ends[:100])
        assert (ends[100:] == comm.size).all() and (ends[:100] == comm.size**2).all()
    comm.Free()


@several
@each_mistake
def test_bad_input_on_one_rank_is_an_error_on_all(comm, mistake):
    make, given, words = BAD[mistake]
    good = np.full(100, 5, np.float32)

    def call():
        if LAST:
            comm.Allreduce(*make(), **given)
        else:
            comm.Allreduce(np.ones(100, np.float32), good)

    texts = fails_everywhere(comm, call, (ValueError, mpicomp.RemoteError), words)
    assert (good == 5).all()
    assert all(f"rank {comm.size - 1} failed: " in text and words in text for text in texts[:-1])


ONE = np.ones(100, np.float32)
REQUESTS = {
    "list": (lambda c: c.Iallreduce([ONE], [ONE.copy()]), "are summed in place"),
    "dict": (lambda c: c.Allreduce_init(ONE, {"a": ONE.copy()}), "are summed in place"),
    "list, persistent": (lambda c: c.Allreduce_init(MPI.IN_PLACE, [ONE.copy()[::2]] * 2), "not contiguous"),
    "dict, persistent": (lambda c: c.Allreduce_init(MPI.IN_PLACE, dict.fromkeys("ab", ONE.copy())), "share memory"),
    "feedback of whole numbers": (
        lambda c: c.Allreduce_init(MPI.IN_PLACE, np.ones(100, np.int32), feedback=True),
        "feedback needs a sum of floating-point data",
    ),
    "another operation": (lambda c: mpicomp.allreduce(ONE, op="max", comm=c), "op='max' must be 'sum' or 'mean'"),
    "mean of whole numbers": (
        lambda c: mpicomp.allreduce(np.ones(100, np.int32), op="mean", comm=c),
        "a mean needs floating-point data, not int32",
    ),
}


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("mistake", REQUESTS)
def test_other_ways_to_be_wrong_are_errors_on_all_ranks_too(comm, mistake, everywhere):
    wrong, words = REQUESTS[mistake]
    if WORLD.size == 1 and not everywhere:
        pytest.skip("needs two ranks")
    bad = LAST or everywhere
    call = (lambda: wrong(comm)) if bad else (lambda: comm.Allreduce(ONE, np.empty(100, np.float32)))
    fails_everywhere(comm, call, (ValueError, mpicomp.RemoteError), words)


@pytest.mark.parametrize(
    "make", [lambda c, x: c.Iallreduce(MPI.IN_PLACE, x), lambda c, x: c.Allreduce_init(MPI.IN_PLACE, x)]
)
def test_bad_input_of_requests_is_an_error_at_once(comm, make):
    with pytest.raises((BufferError, mpicomp.RemoteError)):
        make(comm, read_only())
    works(comm)


def test_only_floating_point_data_has_a_plan(comm):
    with pytest.raises(mpicomp.CodecError, match="only floating-point data is compressed, not int64"):
        comm.plan(np.arange(3))


def test_a_communicator_with_a_wrong_codec_is_never_made():
    for wrong, words in (("naturl", "did you mean 'natural'"), (("natural",), "a pair")):
        with pytest.raises(ValueError, match=words):
            mpicomp.Comm(WORLD, wrong)
    with pytest.raises(ValueError, match="no algorithm named 'x'"):
        mpicomp.Comm(WORLD, algorithm="x")


def test_a_failure_leaves_no_request_waiting(comm):
    """Whatever was under way when a call failed ends with an error too, and not with a hang."""
    pending = comm.Iallreduce(MPI.IN_PLACE, normal(200_000, seed=comm.rank))
    with pytest.raises((ValueError, mpicomp.RemoteError)):
        comm.Allreduce(SHARED, SHARED)
    with suppress(ValueError, mpicomp.RemoteError):  # some ranks may have been through with it
        pending.Wait()
    works(comm)


# Silence


@pytest.mark.ranks(2, 3, 4)
@several
def test_a_rank_that_never_comes_is_named_after_the_timeout(monkeypatch, hurry):
    monkeypatch.setenv("MPICOMP_TIMEOUT", "60")
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    for _ in range(2):
        comm.Allreduce(MPI.IN_PLACE, normal(1000))
    hurry(comm, 0.3)
    if LAST:
        WORLD.Barrier()  # the others have given up by then
        with pytest.raises(mpicomp.RemoteError, match="TimeoutError"):
            comm.Allreduce(MPI.IN_PLACE, normal(1000))
    else:
        begin = time.monotonic()
        with pytest.raises(mpicomp.TimeoutError if comm.size == 2 else Error) as caught:
            comm.Allreduce(MPI.IN_PLACE, normal(1000))
        if caught.type is mpicomp.TimeoutError:  # the others hear of it, maybe a moment before their own time is up
            assert time.monotonic() - begin >= 0.3
        assert "MPICOMP_TIMEOUT=0.3" in str(caught.value) or "TimeoutError" in str(caught.value)
        if comm.size == 2:
            assert f"from rank {comm.size - 1}" in str(caught.value)
        WORLD.Barrier()
    works(comm)


def test_a_failure_may_come_while_a_thread_makes_progress(comm, monkeypatch):
    """The thread is in the middle of a step then: it must find nothing changed under its hands."""
    comm.Allreduce(MPI.IN_PLACE, normal(1000))
    port = port_of(comm)
    plain = port.done
    monkeypatch.setattr(port, "done", lambda *args: (plain(*args), time.sleep(0.02))[0])
    pending = comm.Iallreduce(MPI.IN_PLACE, normal(1000))
    time.sleep(0.01)
    with pytest.raises((ValueError, mpicomp.RemoteError)):
        comm.Allreduce(SHARED, SHARED)
    with suppress(ValueError, mpicomp.RemoteError):
        pending.Wait()
    works(comm)


@several
@pytest.mark.parametrize("rules", ["raw:0-max", "ring:0-max"])
def test_rules_by_hand_that_differ_are_a_disagreement(comm, monkeypatch, rules):
    monkeypatch.setenv("MPICOMP_ALLREDUCE", rules if LAST else "direct:0-max")
    x = np.ones(5000, np.float32)

    def call():
        try:
            comm.Allreduce(MPI.IN_PLACE, x)
        finally:
            monkeypatch.delenv("MPICOMP_ALLREDUCE")

    fails_everywhere(comm, call, words="MPICOMP_ALLREDUCE=direct")


@several
def test_persistent_sums_that_are_left_to_mpi_are_checked_too(comm):
    x = np.ones(100 + LAST, np.float32)
    fails_everywhere(comm, lambda: comm.Allreduce_init(MPI.IN_PLACE, x, algorithm="auto"), words="101 float32")
