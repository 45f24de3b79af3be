"""Allreduce on every rank of a real MPI: what DESIGN promises, and what stays exactly MPI's."""

from __future__ import annotations

import numpy as np
import pytest
from common import DTYPES, bits, normal, relative_error
from mpi4py import MPI

import mpicomp
from mpicomp import simulation

WORLD = MPI.COMM_WORLD
LENGTHS = [0, 1, 3, 63, 64, 65, 1000, 20_011]


def same_everywhere(x):
    """Whether all ranks hold the same bits."""
    everybody = WORLD.allgather(bits(x).tobytes())
    return all(each == everybody[0] for each in everybody)


def inputs(n, kind="f32"):
    """What each rank gives, on every rank."""
    return [normal(n, kind, seed=r) for r in range(WORLD.size)]


def total(xs):
    return np.sum([x.astype(np.float64) for x in xs], axis=0)


# The same bits


@pytest.mark.parametrize("codec", ["natural", "natural:bits=8", "raw", "bf16"])
@pytest.mark.parametrize("n", LENGTHS)
def test_every_rank_gets_the_same_bits_and_those_of_the_simulator(comm, codec, n):
    xs = inputs(n)
    out = np.full(n, np.nan, np.float32)
    comm.Allreduce(xs[comm.rank], out, codec=codec, seed=11)
    assert same_everywhere(out)
    if comm.rank == 0:  # for all
        assert (bits(out) == bits(simulation.allreduce(xs, codec=codec, seed=11).arrays[0])).all()


def test_numpys_whole_numbers_are_seeds_too(comm):
    x, given, other = normal(3000, seed=comm.rank), np.empty(3000, np.float32), np.empty(3000, np.float32)
    comm.Allreduce(x, given, seed=9)
    for call in (
        lambda **seed: comm.Allreduce(x, other, **seed),
        lambda **seed: comm.Iallreduce(x, other, **seed).Wait(),
        lambda **seed: mpicomp.allreduce(x, comm=comm, **seed),
    ):
        result = call(seed=np.int64(9))
        assert (bits(other if not isinstance(result, np.ndarray) else result) == bits(given)).all()
        other[:] = 0
    request = comm.Allreduce_init(x, other, seed=np.int64(9))
    request.Start()
    request.Wait()
    assert (bits(other) == bits(given)).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_every_kind_of_number_is_summed(comm, kind):
    xs = inputs(5001, kind)
    x = xs[comm.rank].copy()
    comm.Allreduce(MPI.IN_PLACE, x)
    limit = comm.plan(x).expected_error
    assert same_everywhere(x)
    assert relative_error(x, total(xs)) <= (limit + 0.01 if comm.size > 1 else 0)


def test_calls_are_counted_and_a_seed_stands_for_both(comm):
    x, outs = normal(3000, seed=comm.rank), np.empty((4, 3000), np.float32)
    comm.Allreduce(x, outs[0])
    comm.Allreduce(x, outs[1])
    comm.Allreduce(x, outs[2], seed=9)
    comm.Allreduce(x, outs[3], seed=9)
    again = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    repeated = np.empty(3000, np.float32)
    again.Allreduce(x, repeated)
    assert (bits(repeated) == bits(outs[0])).all()
    assert (bits(outs[2]) == bits(outs[3])).all()
    if comm.size > 1:
        assert (outs[0] != outs[1]).any() and (outs[1] != outs[2]).any()


def test_segments_and_threads_do_not_change_the_bits(comm, monkeypatch):
    x, first, other = normal(300_001, seed=comm.rank), np.empty(300_001, np.float32), np.empty(300_001, np.float32)
    comm.Allreduce(x, first, seed=1)
    monkeypatch.setenv("MPICOMP_NUM_THREADS", "2")
    for segment in (20_000, 1 << 30):
        comm.Allreduce(x, other, seed=1, segment=segment)
        assert (bits(first) == bits(other)).all()


def test_nan_and_inf_reach_every_rank(comm):
    x = normal(1000, seed=comm.rank)
    if comm.rank == comm.size - 1:
        x[3], x[500], x[999] = np.nan, np.inf, -np.inf
    comm.Allreduce(MPI.IN_PLACE, x)
    assert np.isnan(x[3]) and x[500] == np.inf and x[999] == -np.inf
    assert np.isfinite(x[[0, 4, 501, 998]]).all()


@pytest.mark.long
@pytest.mark.ranks(2, 3, 4)
def test_the_sum_is_right_on_average(comm):
    x, calls = np.linspace(1, 2, 100).astype(np.float32), 300
    outs = np.empty((calls, 100), np.float32)
    for out in outs:
        comm.Allreduce(x, out)
    deviation = outs.std(axis=0, dtype=np.float64) / np.sqrt(calls)
    assert (np.abs(outs.mean(axis=0, dtype=np.float64) - comm.size * x.astype(np.float64)) <= 5.5 * deviation).all()


def test_one_rank_alone_gets_its_own_values_exactly():
    alone = mpicomp.Comm(MPI.COMM_SELF, "natural", algorithm="direct")
    for kind in DTYPES:
        x, out = normal(777, kind), np.empty(777, DTYPES[kind])
        alone.Allreduce(x, out)
        assert (bits(x) == bits(out)).all()
        alone.Iallreduce(MPI.IN_PLACE, x).Wait()
        assert (bits(x) == bits(out)).all()


# The function


def test_the_function_returns_an_array_of_the_same_kind(comm):
    xs = [x.reshape(5, 40) for x in inputs(200)]
    y = mpicomp.allreduce(xs[comm.rank], comm=comm)
    assert type(y) is np.ndarray and y.shape == (5, 40) and y.dtype == np.float32
    assert same_everywhere(y) and relative_error(y, total(xs)) < 0.6
    mean = mpicomp.allreduce(xs[comm.rank], op="mean", codec="raw", comm=comm)
    assert mean == pytest.approx(total(xs) / comm.size, abs=1e-5)
    assert mpicomp.allreduce(np.arange(3), comm=comm).tolist() == [0, comm.size, 2 * comm.size]


def test_the_function_works_on_plain_communicators_and_counts_their_calls():
    x = normal(100_000, seed=WORLD.rank)
    first, second = (mpicomp.allreduce(x, algorithm="direct") for _ in range(2))
    assert same_everywhere(first) and same_everywhere(second)
    if WORLD.size > 1:
        assert (first != second).any()


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("algorithm", ["direct", "auto"])
def test_a_mean_of_whole_numbers_is_exact_with_raw(comm, kind, algorithm):
    x = np.full(130, comm.size * (comm.rank + 1), DTYPES[kind])
    y = mpicomp.allreduce(x, op="mean", codec="raw", algorithm=algorithm, comm=comm)
    assert (y.astype(np.float64) == comm.size * (comm.size + 1) / 2).all()


def test_a_mean_is_for_floating_point_numbers_only(comm):
    with pytest.raises(mpicomp.CodecError, match="a mean needs floating-point data, not int64"):
        mpicomp.allreduce(np.arange(3), op="mean", comm=comm)
    with pytest.raises(ValueError, match="op='max' must be 'sum' or 'mean'"):
        mpicomp.allreduce(np.ones(3), op="max", comm=comm)


# What is not compressed


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "?"])
def test_integers_are_summed_exactly_as_by_mpi(comm, dtype):
    x = (np.arange(50) % 5 + comm.rank).astype(dtype)
    out, expected = np.empty_like(x), np.empty_like(x)
    op = MPI.LOR if dtype == "?" else MPI.SUM
    comm.Allreduce(x, out, op)
    WORLD.Allreduce(x, expected, op)
    assert (out == expected).all()


@pytest.mark.parametrize("op", [MPI.MAX, MPI.MIN, MPI.PROD], ids=["max", "min", "prod"])
def test_other_operations_are_exactly_those_of_mpi(comm, op):
    x = normal(100_000, seed=comm.rank)
    out, expected = np.empty_like(x), np.empty_like(x)
    comm.Allreduce(x, out, op)
    WORLD.Allreduce(x, expected, op)
    assert (bits(out) == bits(expected)).all()
    comm.Iallreduce(x, out, op=op).Wait()
    WORLD.Iallreduce(x, expected, op=op).Wait()  # may add in another order
    assert (bits(out) == bits(expected)).all()


def test_small_messages_are_left_to_mpi_by_auto():
    comm = mpicomp.Comm(WORLD, "natural")
    x, out, expected = normal(100, seed=comm.rank), np.empty(100, np.float32), np.empty(100, np.float32)
    for _ in range(3):
        comm.Allreduce(x, out)
        WORLD.Allreduce(x, expected)
        assert (bits(out) == bits(expected)).all()
    assert comm.plan(x).algorithm == ("raw" if comm.size > 1 else "copy")


def test_what_auto_sends_to_measure_is_not_counted():
    comm = mpicomp.Comm(WORLD.Dup(), "natural")
    x = normal(1 << 20, seed=comm.rank)
    comm.Allreduce(x, np.empty_like(x))
    first = WORLD.allreduce(comm.stats.wire_bytes)  # of all: by `hierarchical` ranks take turns in what they send
    comm.Allreduce(x, np.empty_like(x))
    assert WORLD.allreduce(comm.stats.wire_bytes) == 2 * first
    comm.Free()


def test_what_is_known_of_a_communicator_is_not_known_of_the_next_one_in_its_place():
    x, exact, places = normal(64, seed=WORLD.rank), np.empty(64, np.float32), set()
    WORLD.Allreduce(x, exact)
    for codec, algorithm in [("natural", "auto"), ("terngrad", "direct")] * 20:
        comm, out = mpicomp.Comm(WORLD, codec, algorithm=algorithm), np.empty_like(x)
        comm.Allreduce(x, out)
        comm.Allreduce(x, out)
        assert (bits(out) == bits(exact)).all() == (algorithm == "auto" or WORLD.size == 1)
        places.add(id(comm))
        del comm
    assert len(places) < 40


def test_small_messages_are_right_however_they_are_given_and_again():
    comm, p = mpicomp.Comm(WORLD, "natural"), WORLD.size
    x, half = (
        np.arange(64, dtype="f4"),
        np.arange(128, dtype="f2"),
    )  # as many bytes: what is known of one is not the other's

    def summed(send, receive, *args, **kwargs):
        comm.Allreduce(send, receive, *args, **kwargs)
        return out

    for _ in range(3):
        for out in (np.empty_like(x), np.empty(64, "i4"), np.empty(32, "f8")):
            given = x[: out.size].astype(out.dtype)
            assert (summed(given, out) == p * given).all()
            assert (summed(given, out, MPI.MAX) == given).all()
            assert (summed(given, out, op=MPI.SUM) == p * given).all()
            comm.Allreduce(sendbuf=given, recvbuf=out)
            assert (out == p * given).all()
        out = np.empty_like(x)
        assert (summed([x, MPI.FLOAT], [out, MPI.FLOAT]) == p * x).all()
        assert (summed([x, 64, MPI.FLOAT], [out, 64, MPI.FLOAT]) == p * x).all()
        assert (summed(MPI.IN_PLACE, out) == p * p * x).all()
        several = [x.copy(), x.copy()]
        comm.Allreduce(MPI.IN_PLACE, several)
        assert all((each == p * x).all() for each in several)
        out = np.empty_like(half)
        assert np.abs(summed(half, out, codec="raw") - p * half.astype("f4")).max() <= p / 8
    out = np.empty_like(x)
    for _ in range(3):  # some ranks take a shorter way than others: what comes then must still find together
        assert (
            summed([x, 64, MPI.FLOAT] if comm.rank % 2 else x, [out, 64, MPI.FLOAT] if comm.rank % 2 else out) == p * x
        ).all()
    assert same_everywhere(summed(x, out, algorithm="direct"))
    with pytest.raises(TypeError):
        comm.Allreduce(x, np.empty_like(x), MPI.SUM, colour="red")
    with pytest.raises(TypeError):
        comm.Allreduce()


def test_every_other_method_is_that_of_mpi4py(comm):
    assert isinstance(comm, MPI.Intracomm)
    assert comm.allreduce(comm.rank) == sum(range(comm.size))
    assert comm.bcast("word" if comm.rank == 0 else None) == "word"
    gathered = np.empty(comm.size, "i4")
    comm.Allgather(np.array([comm.rank], "i4"), gathered)
    assert (gathered == np.arange(comm.size)).all()
    comm.Barrier()
    assert str(comm.codec) == "natural"
