"""Allreduce of lists and dicts of arrays at once. Run by test_mpi.py."""

from __future__ import annotations

import numpy as np
import pytest
from common import bits, normal
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD
SHAPES = [(0,), (1,), (63,), (7, 9), (65,), (), (1000,), (30, 1001), (3, 20_011)]
CODECS = ["raw", "natural", "natural:bits=8", "qsgd:bits=8,block=256", "natural-dithering:bits=4"]


def given(rank, shapes=SHAPES, dtype="f4"):
    """What a rank gives: arrays of different magnitudes."""
    return [
        np.asarray(10.0 ** (k % 5) * normal(int(np.prod(shape)), seed=100 * rank + k), dtype).reshape(shape)
        for k, shape in enumerate(shapes)
    ]


def errors(xs, shapes=SHAPES, dtype="f4"):
    """How far each of the last arrays is from its sum, as a part of what was summed."""
    everybody = [given(rank, shapes, dtype)[-len(xs) :] for rank in range(WORLD.size)]
    found = []
    for x, *parts in zip(xs, *everybody):
        scale = sum(np.linalg.norm(part) for part in parts)
        found.append(float(np.linalg.norm(x - sum(part.astype("f8") for part in parts)) / scale) if x.size else 0.0)
    return found


def same_everywhere(xs):
    everybody = WORLD.allgather(b"".join(bits(x).tobytes() for x in xs))
    return all(each == everybody[0] for each in everybody)


@pytest.mark.parametrize(
    "codec, algorithm", [(c, a) for c in CODECS for a in ("direct", "ring")] + [("natural", "auto")]
)
def test_each_array_becomes_its_sum(codec, algorithm):
    comm = mpicomp.Comm(WORLD, codec, algorithm=algorithm)
    xs = given(comm.rank)
    comm.Allreduce(MPI.IN_PLACE, xs)
    assert same_everywhere(xs)
    for error in errors(xs):  # each by its own scale: no block is of two arrays
        assert error <= (1e-6 if codec == "raw" else 2)
    if codec != "raw":
        assert max(errors(xs[6:])) <= (comm.size * mpicomp.codec(codec).omega(1000)) ** 0.5


def test_names_types_and_what_no_codec_carries():
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    shapes = [(300,), (4, 5000)]
    single, double = given(comm.rank, shapes), given(comm.rank, shapes, "f8")
    named = {"a": single[0], "b": double[0], "c": single[1], "d": double[1], "count": np.full(5, comm.rank + 1)}
    comm.Allreduce(named)
    assert max(errors(single, shapes) + errors(double, shapes, "f8")) < 0.4
    assert (named["count"] == comm.size * (comm.size + 1) // 2).all()
    assert same_everywhere(named.values())


def test_rules_choose_by_name_and_array():
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    for rule in ({"7": "terngrad", "*": "raw"}, lambda name, x: "terngrad" if x.shape == SHAPES[7] else ["raw", "raw"]):
        xs = given(comm.rank)
        comm.Allreduce(MPI.IN_PLACE, xs, codec=rule)
        found = errors(xs)
        assert all(error < 1e-6 for k, error in enumerate(found) if k != 7)
        assert found[7] > 0.1 or comm.size == 1


def test_a_rule_that_names_no_codec_for_an_array_leaves_small_ones_exact_too():
    comm = mpicomp.Comm(WORLD, "topk:ratio=0.01", algorithm="direct")
    for rule in (("topk:ratio=0.01", "natural"), {"weight*": "sign"}, lambda name, x: None):
        xs = given(comm.rank)
        comm.Allreduce(MPI.IN_PLACE, xs, codec=rule)
        found = errors(xs)
        assert max(found[:7]) < 1e-6 and (min(found[7:]) > 0.1 or comm.size == 1)


@pytest.mark.parametrize("codec", ["topk:ratio=0.01", "lowrank:rank=1"])
def test_codecs_that_drop_values_leave_vectors_and_small_arrays_exact(codec):
    comm = mpicomp.Comm(WORLD, codec, algorithm="direct" if codec.startswith("topk") else "lowrank")
    xs = given(comm.rank)
    comm.Allreduce(MPI.IN_PLACE, xs)
    found = errors(xs)
    assert max(found[:7]) < 1e-6 and (min(found[7:]) > 0.1 or comm.size == 1)
    assert same_everywhere(xs)


def test_the_same_seed_gives_the_same_bits():
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    runs = []
    for seed in (5, 5, 6):
        runs.append(given(comm.rank))
        comm.Allreduce(MPI.IN_PLACE, runs[-1], seed=seed)
    same = [all((bits(a) == bits(b)).all() for a, b in zip(runs[0], other)) for other in runs[1:]]
    assert same[0] and (not same[1] or comm.size == 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("algorithm", ["direct", "ring", "halving", "gather", "server", "hierarchical:nodes_of=2"])
@pytest.mark.parametrize("codec", ["natural", "natural:correlated=true", "natural-dithering:bits=3", "sign"])
def test_threads_give_a_list_the_same_bits(monkeypatch, codec, algorithm, dtype):
    """One thread calls kernels for all arrays in a row, several do so array by array."""
    comm = mpicomp.Comm(WORLD, codec, algorithm=algorithm)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("MPICOMP_NUM_THREADS", threads)
        results.append(given(comm.rank, dtype=dtype))
        comm.Allreduce(MPI.IN_PLACE, results[-1], seed=5)
    assert all((bits(a) == bits(b)).all() for a, b in zip(*results))


@pytest.mark.parametrize("codec", ["natural", "topk:ratio=0.1", "lowrank:rank=2"])
def test_lists_without_waiting_and_again_and_again_are_as_those_with_waiting(codec):
    comm = mpicomp.Comm(WORLD, codec, algorithm="auto" if codec == "lowrank:rank=2" else "direct")
    shapes = [(300,), (60, 100), (7, 9), (200, 40)]

    def fresh():
        return [*given(comm.rank, shapes), np.full(3, comm.rank)]

    blocking, later, again = fresh(), fresh(), fresh()
    comm.Allreduce(blocking, seed=3)
    assert comm.Iallreduce(MPI.IN_PLACE, later, seed=3).Wait()
    request = comm.Allreduce_init(MPI.IN_PLACE, again, seed=3)
    for _ in range(2):
        for x, value in zip(again, fresh()):
            x[:] = value
        request.Start()
        while not request.Test():
            pass
        assert same_everywhere(again)
        assert (again[-1] == comm.size * (comm.size - 1) // 2).all()
    request.Free()
    assert all((bits(x) == bits(y)).all() for x, y in zip(blocking[:-1], later[:-1]))
    assert (later[-1] == blocking[-1]).all()


@pytest.mark.parametrize("codec", ["topk:ratio=0.1", "lowrank:rank=4", "sign"])
def test_lists_are_remembered_array_by_array_saved_and_restored(codec):
    comm = mpicomp.Comm(WORLD, codec, algorithm="auto" if codec.startswith("lowrank") else "direct")
    shapes = [(300,), (60, 100), (200, 40)]
    xs, total = given(comm.rank, shapes), 0
    request = comm.Allreduce_init(MPI.IN_PLACE, xs, feedback=True, seed=1)
    runs = []
    for step in range(40):
        for x, value in zip(xs, given(comm.rank, shapes)):
            x[:] = value
        request.Start()
        request.Wait()
        total = [x.astype("f8") for x in xs] if step == 0 else [sum_ + x for sum_, x in zip(total, xs)]
        if step == 20:
            saved = request.state_dict()
        if step > 20:
            runs.append([x.copy() for x in xs])
    assert max(errors([part / 40 for part in total], shapes)) < 0.3, "what is lost comes later"
    request.load_state_dict(saved)
    for expected in runs:
        for x, value in zip(xs, given(comm.rank, shapes)):
            x[:] = value
        request.Start()
        request.Wait()
        assert all((bits(x) == bits(y)).all() for x, y in zip(xs, expected))
    request.reset()
    with pytest.raises(ValueError, match="another"):
        request.load_state_dict({"9": {}})
    request.Free()


def test_tiny_arrays_are_not_blown_up():
    comm = mpicomp.Comm(WORLD, "qsgd:bits=4,block=512", algorithm="direct")
    before = comm.stats.wire_bytes
    comm.Allreduce(MPI.IN_PLACE, [np.ones(10, "f4") for _ in range(50)])
    assert comm.stats.wire_bytes - before <= 2 * 50 * 10 * 4


def test_a_dict_may_be_filled_in_another_order_on_each_rank():
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    named = {"a": np.full(7000, 1, "f4"), "b": np.full(7000, 1024, "f4")}
    comm.Allreduce(dict(reversed(named.items())) if comm.rank % 2 else named, codec="raw")
    assert (named["a"] == comm.size).all() and (named["b"] == 1024 * comm.size).all()


def test_other_names_are_a_disagreement():
    if WORLD.size == 1:
        pytest.skip("nobody to disagree with")
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    xs = {name: np.full(9000, 7, "f4") for name in (("a", "b") if comm.rank else ("a", "c"))}
    with pytest.raises(mpicomp.DisagreementError, match="names a,b"):
        comm.Allreduce(xs)
    assert all((x == 7).all() for x in xs.values())


def test_memory_is_not_summed_twice():
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    tied, other = np.full((30, 40), 7, "f4"), np.full(40, 7, "f4")
    for xs in ({"embed": tied, "bias": other, "head": tied}, [other, tied.reshape(-1)[100:], tied[:3]]):
        with pytest.raises(mpicomp.errors.BufferError, match="share memory"):
            comm.Allreduce(xs)
    assert (tied == 7).all() and (other == 7).all()
    comm.Allreduce([tied[:15], tied[15:], other], codec="raw")
    assert (tied == 7 * comm.size).all()


def test_lengths_in_another_order_are_a_disagreement():
    if WORLD.size == 1:
        pytest.skip("nobody to disagree with")
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    lengths = (3, 5, 9000) if comm.rank else (5, 3, 9000)
    xs = [np.full(n, 7, "f4") for n in lengths]
    with pytest.raises(mpicomp.DisagreementError):
        comm.Allreduce(MPI.IN_PLACE, xs)
    assert all((x == 7).all() for x in xs)
    comm.Allreduce(MPI.IN_PLACE, xs[2:])


@pytest.mark.host  # CuPy knows no read-only arrays
def test_one_bad_array_stops_all_before_anything_is_written():
    comm = mpicomp.Comm(WORLD, "natural", algorithm="direct")
    xs = [np.full(n, 7, "f4") for n in (10, 20_000)]
    xs.append(np.full(100, 7, "f4"))
    xs[-1].flags.writeable = False
    with pytest.raises(mpicomp.errors.BufferError, match="array '2' is read-only"):
        comm.Allreduce(MPI.IN_PLACE, xs)
    with pytest.raises(mpicomp.errors.BufferError, match="in place"):
        comm.Allreduce(xs, xs)
    assert all((x == 7).all() for x in xs)


def fails_everywhere(comm, arrays, kinds=(mpicomp.DisagreementError, mpicomp.RemoteError), **settings):
    """An error on every rank, nothing written, and then the communicator works."""
    before = [np.array(x) for x in arrays]
    with pytest.raises(kinds):
        comm.Allreduce(arrays, **settings)
    assert all((x == old).all() for x, old in zip(arrays, before))
    x = np.ones(9, np.float32)
    comm.Allreduce([x], codec="raw")
    assert (x == comm.size).all()


@pytest.mark.skipif(WORLD.size == 1, reason="needs two ranks")
@pytest.mark.parametrize(
    "mine, theirs",
    [
        (["f4", "f8"], ["f4"]),
        ([], ["f4"]),
        (["f4", "i4"], ["f4", "f8"]),
        (["f4", "i4"], ["f4"]),
    ],
)
def test_other_numbers_of_sums_are_a_disagreement(comm, mine, theirs):
    arrays = [np.ones(10, dtype) for dtype in (mine if comm.rank == 0 else theirs)]
    fails_everywhere(comm, arrays, algorithm="direct")


@pytest.mark.skipif(WORLD.size == 1, reason="needs two ranks")
def test_an_array_that_is_empty_on_one_rank_is_a_disagreement(comm):
    fails_everywhere(comm, [np.ones(10, "f4"), np.ones(10 * (comm.rank > 0), "f8")], algorithm="direct")


@pytest.mark.skipif(WORLD.size == 1, reason="needs two ranks")
def test_rules_that_differ_are_told_in_words_that_can_be_read(comm):
    def rule(name, x):
        return "qsgd" if name == "1" and comm.rank == 0 else "natural"

    arrays = [np.ones(5000, np.float32) for _ in range(2)]
    with pytest.raises(mpicomp.DisagreementError) as caught:
        comm.Allreduce(arrays, codec=rule, algorithm="direct")
    assert "1 f32 by qsgd" in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.skipif(WORLD.size == 1, reason="needs two ranks")
def test_an_array_for_mpi_is_checked_before_others_are_summed(comm):
    whole = np.ones((4, 4), np.int32)
    last = whole[:, ::2] if comm.rank == 0 else np.ones(8, np.int32)
    fails_everywhere(comm, [np.ones(100, np.float32), last], (BufferError, mpicomp.RemoteError), algorithm="direct")


def test_names_that_read_the_same_are_refused(comm):
    with pytest.raises(mpicomp.errors.BufferError, match="two arrays have the name '1'"):
        comm.Allreduce({1: np.ones(3, np.float32), "1": np.ones(3, np.float32)})


def test_other_operations_and_rules_that_give_no_codec_are_refused(comm):
    arrays = [np.ones(5000, np.float32) for _ in range(2)]
    with pytest.raises(mpicomp.errors.BufferError, match="op must be MPI.SUM"):
        comm.Allreduce(arrays, op=MPI.MAX)
    with pytest.raises(mpicomp.errors.CodecError, match="no codec"):
        comm.Allreduce(arrays, codec=lambda name, x: {})


def test_specs_of_mpi4py_may_be_values_of_a_dict_with_sparse_codecs(comm):
    x, y = np.ones((80, 100), np.float32), np.ones(7, np.float32)
    comm.Allreduce({"x": [x, MPI.FLOAT], "y": y}, codec="topk:ratio=1", algorithm="direct")
    assert (x == comm.size).all() and (y == comm.size).all()


def test_none_stands_for_in_place_before_lists_too(comm):
    x = np.ones(7, np.float32)
    comm.Allreduce(None, [x], codec="raw")
    assert (x == comm.size).all()
