"""lowrank on every rank of a real MPI."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp
from mpicomp import calibration


@pytest.fixture
def comm():
    comm = mpicomp.Comm(MPI.COMM_WORLD.Dup(), "lowrank:rank=2")
    yield comm
    comm.Free()


def same_everywhere(comm, x):
    everybody = comm.allgather(x.tobytes())
    return all(each == everybody[0] for each in everybody)


def matrix(seed, rank=2, noise=0.0, shape=(80, 120)):
    rng = np.random.default_rng(seed)
    exact = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    return (exact + noise * rng.standard_normal(shape)).astype("f4")


def test_an_allreduce_of_a_matrix_is_exact_if_its_rank_is_low(comm):
    base = matrix(0)
    x = (comm.rank + 1) * base
    comm.Allreduce(MPI.IN_PLACE, x)
    assert same_everywhere(comm, x)
    assert np.allclose(x, comm.size * (comm.size + 1) / 2 * base, atol=1e-3)
    y = mpicomp.allreduce(matrix(comm.rank, 6, 1.0), op="mean", comm=comm)
    assert same_everywhere(comm, y) and (comm.size == 1 or np.linalg.matrix_rank(y, tol=1e-2) == 2)
    assert comm.plan(x).algorithm == ("lowrank" if comm.size > 1 else "copy")


def test_ways_to_sum_factors_are_chosen_by_their_times_and_give_the_same_bits(monkeypatch):
    results = []
    for worth in (-1e9, 0.0, 1e9):  # of a step less, in seconds
        comm = mpicomp.Comm(MPI.COMM_WORLD.Dup(), "lowrank:rank=2")
        monkeypatch.setattr(calibration, "STEP", worth)
        for shape in ((80, 120), (70, 5000)):
            x = matrix(comm.rank, 6, 1.0, shape)
            comm.Allreduce(MPI.IN_PLACE, x.copy(), seed=3)  # measures
            comm.stats.reset()
            comm.Allreduce(MPI.IN_PLACE, x, seed=3)
            assert same_everywhere(comm, x)
            results.append(x.tobytes())
            plan = comm.plan(x)
            assert len(set(comm.allgather(plan.ways))) == 1
            if comm.size > 2:
                assert worth == 0 or set(plan.ways) == {"gather" if worth > 0 else "direct"}
            if comm.size > 1:
                assert abs(comm.allreduce(comm.stats.wire_bytes) - comm.size * plan.wire_bytes) <= comm.size  # rounded
        comm.Free()
    assert results[:2] == results[2:4] == results[4:]


def test_vectors_go_to_mpi_untouched(comm):
    x = np.full(50_000, comm.rank + 1.0)
    comm.Allreduce(MPI.IN_PLACE, x)
    assert np.all(x == comm.size * (comm.size + 1) / 2)


def test_a_persistent_request_starts_warm_and_can_be_restored(comm):
    given, out = matrix(comm.rank, 6, 0.5), np.empty((80, 120), "f4")
    total = comm.allreduce(given.astype("f8"))
    request = comm.Allreduce_init(given, out, seed=3)
    errors = []
    for _ in range(12):
        request.Start()
        request.Wait()
        assert same_everywhere(comm, out)
        errors.append(np.linalg.norm(out - total))
    if comm.size > 1:
        assert errors[-1] < errors[0]
    state, last = request.state_dict(), None
    for _ in range(2):
        request.load_state_dict(state)
        request.Start()
        request.Wait()
        assert last is None or last == out.tobytes()
        last = out.tobytes()


@pytest.mark.long
@pytest.mark.ranks(2, 3)
def test_feedback_loses_nothing_in_the_long_run(comm):
    given, out = matrix(comm.rank, 6, 0.5), np.empty((80, 120), "f4")
    total, sums = comm.allreduce(given.astype("f8")), np.zeros((80, 120))
    request = comm.Allreduce_init(given, out, feedback=True)
    for _ in range(180):
        request.Start()
        request.Wait()
        sums += out
    assert np.linalg.norm(sums / 180 - total) < 0.2 * np.linalg.norm(total)


def test_lists_of_arrays_travel_together(comm):
    xs = [matrix(0), np.ones(500, "f4"), matrix(1, 1, shape=(64, 200))]
    expected = [comm.size * x for x in xs]
    comm.Allreduce(xs)
    assert all(same_everywhere(comm, x) and np.allclose(x, e, atol=1e-3) for x, e in zip(xs, expected))


def test_two_at_once_do_not_meet(comm):
    x, y = matrix(0), matrix(1)
    requests = [comm.Iallreduce(MPI.IN_PLACE, each) for each in (x, y)]
    for request in reversed(requests) if comm.rank % 2 else requests:
        request.Wait()
    assert np.allclose(x, comm.size * matrix(0), atol=1e-3) and np.allclose(y, comm.size * matrix(1), atol=1e-3)


def test_ranks_with_other_shapes_get_an_error(comm):
    if comm.size == 1:
        pytest.skip("nobody to disagree with")
    x = np.zeros((80, 120) if comm.rank else (120, 80), "f4")
    with pytest.raises(mpicomp.DisagreementError, match="shapes"):
        comm.Allreduce(MPI.IN_PLACE, x)
