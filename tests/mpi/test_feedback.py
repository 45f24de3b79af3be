"""Persistent Allreduce that remembers, on every rank of a real MPI."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp


def descend(comm, feedback, steps=300, n=400, codec="topk:ratio=0.05"):
    """Relative distance from the optimum of sum |x - b_i|^2 after gradient steps that get smaller."""
    rng = np.random.default_rng(5)
    b = 3 * rng.standard_normal((comm.size, n)).astype("f4")
    best, x, g = b.mean(0), np.zeros(n, "f4"), np.empty(n, "f4")
    request = comm.Allreduce_init(MPI.IN_PLACE, g, codec=codec, feedback=feedback, seed=3)
    for t in range(steps):
        g[:] = x - b[comm.rank]
        request.Start()
        request.Wait()
        x -= np.float32(0.1 / (1 + t / 50) / comm.size) * g
    everybody = comm.allgather(x.tobytes())
    assert all(each == everybody[0] for each in everybody)
    return float(np.linalg.norm(x - best) / np.linalg.norm(best))


@pytest.mark.long
@pytest.mark.ranks(2)
def test_topk_converges_with_feedback_and_fails_without(comm):
    if comm.size == 1:
        pytest.skip("one rank is exact")
    without, with_it, ef21 = (descend(comm, feedback) for feedback in (False, True, "ef21"))
    assert without > 0.1 and with_it < 0.3 * without and ef21 < 0.01


@pytest.mark.parametrize("feedback", [True, "ef21"])
def test_a_request_can_be_saved_restored_and_reset(comm, feedback):
    x, out = np.random.default_rng(comm.rank).standard_normal(3000).astype("f4"), np.empty(3000, "f4")

    def results(request, times):
        found = []
        for _ in range(times):
            request.Start()
            request.Wait()
            found.append(out.tobytes())
        return found

    request = comm.Allreduce_init(x, out, codec="randk:ratio=0.1", feedback=feedback, seed=1)
    first = results(request, 2)
    state = request.state_dict()
    later = results(request, 2)
    last = list(state)[-1]
    with pytest.raises(ValueError, match=f"this state has None for {last!r}, where"):
        request.load_state_dict({**state, last: None})
    request.load_state_dict(state)
    assert results(request, 2) == later
    request.reset()
    assert results(request, 2) == first
    other = comm.Allreduce_init(x, out, codec="randk:ratio=0.1", feedback=feedback, seed=1)
    other.load_state_dict({key: state[key] for key in state if key not in ("seed", "number")})  # as it once was
    assert results(other, 2) == later
    request.Free()


@pytest.mark.parametrize("settings", [{"codec": "randk:ratio=0.1"}, {"codec": "lowrank", "algorithm": "lowrank"}])
def test_a_restored_request_goes_on_with_the_same_bits_whatever_its_communicator_did_before(comm, settings):
    x, out = np.random.default_rng(comm.rank).standard_normal((60, 50)).astype("f4"), np.empty((60, 50), "f4")

    def started(request):
        request.Start()
        request.Wait()
        return out.tobytes()

    request = comm.Allreduce_init(x, out, feedback=True, **settings)
    state = request.state_dict()  # before the first start, which draws lowrank's factors
    first = started(request)
    other = mpicomp.Comm(comm, seed=5)
    other.Allreduce(x, out)
    again = other.Allreduce_init(x, out, feedback=True, **settings)
    again.load_state_dict(state)
    assert started(again) == first
    with pytest.raises(ValueError, match="another collective"):
        again.load_state_dict({"seed": 3, "number": 4, "step": 0})
    assert again.state_dict()["seed"] == state["seed"]


@pytest.mark.host
def test_a_wrong_state_is_refused_and_changes_nothing(comm):
    def request(*sizes):
        xs = [np.full(n, comm.rank + 1.0, "f4") for n in sizes] + [np.ones(sizes[0], "f8")]
        made = comm.Allreduce_init(MPI.IN_PLACE, xs, codec="sign", algorithm="direct", feedback=True)
        made.Start()
        made.Wait()
        return made

    lists, other = request(3000, 2000), request(4000, 1000)
    before = lists.state_dict()
    first, *_, last = before
    changed = {**before, first: {name: value + 1 for name, value in before[first].items()}}
    for wrong, error, words in [
        (other.state_dict()[last], ValueError, "shape .*4000.*, expected .*3000"),
        ({**before[last], "number": -1}, ValueError, "number=-1 must be at least 0"),
        ({**before[last], "seed": "one"}, ValueError, "seed='one' must be a whole number"),
        (None, TypeError, "not None"),
    ]:
        with pytest.raises(error, match=words):
            lists.load_state_dict({**changed, last: wrong})
        after = lists.state_dict()
        assert all(np.array_equal(after[k][array], before[k][array]) for k in before for array in before[k])
    lists.load_state_dict(before)


def test_small_arrays_are_exact_and_have_a_state(comm):
    x = np.full(10, comm.rank + 1.0, "f4")
    request = comm.Allreduce_init(MPI.IN_PLACE, x, codec="topk", algorithm="auto", feedback=True)
    request.Start()
    request.Wait()
    assert np.all(x == comm.size * (comm.size + 1) / 2)
    assert request.state_dict()["step"] == 1


@pytest.mark.parametrize("name", ["Allreduce", "Iallreduce"])
def test_calls_without_a_request_refuse_feedback(comm, name):
    x = np.zeros(10, "f4")
    with pytest.raises(ValueError, match="Allreduce_init"):
        getattr(comm, name)(MPI.IN_PLACE, x, feedback=True)


def test_feedback_needs_floating_point_data(comm):
    x = np.zeros(10, "i4")
    with pytest.raises(ValueError, match="floating-point"):
        comm.Allreduce_init(MPI.IN_PLACE, x, feedback=True)
    y = np.zeros(10, "f4")
    with pytest.raises(ValueError, match="'ef21'"):
        comm.Allreduce_init(MPI.IN_PLACE, y, feedback="ef22")
