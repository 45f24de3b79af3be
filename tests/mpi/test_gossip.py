"""Gossip methods on real ranks: the bits of the simulator, errors that reach everybody, state that can be saved."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp
from mpicomp import gossip, topology
from mpicomp.gossip import Workers

WORLD = MPI.COMM_WORLD
P = WORLD.size
METHODS = {
    "dpsgd": {},
    "naive": {"codec": "natural"},
    "dcd": {"codec": "natural"},
    "ecd": {"codec": "grid:step=0.05,bits=8"},
    "choco": {"codec": "topk:ratio=0.1", "gamma": 0.2},
    "deepsqueeze": {"codec": "natural", "gamma": 0.2},
    "powergossip": {"rank": 2, "iterations": 2},
}


@pytest.fixture
def ring():
    comm = mpicomp.ring(WORLD.Dup(), "natural")
    yield comm
    comm.Free()


def parameters(rank):
    rng = np.random.default_rng(rank)
    return {"w": rng.normal(size=(17, 9)).astype("f4"), "b": rng.normal(size=11).astype("f4")}


def vector(params):
    return np.concatenate([np.asarray(x).ravel() for x in params.values()])


@pytest.mark.parametrize("method", METHODS)
def test_real_ranks_get_the_bits_of_virtual_ones(ring, method):
    mine = parameters(ring.rank)
    made = gossip.find(method)(ring, mine, **METHODS[method])
    for _ in range(5):
        made.mix(mine)
        made.step(mine, {name: np.ones_like(x) for name, x in mine.items()})
    expected, bytes_sent = WORLD.scatter(virtual(method) if WORLD.rank == 0 else None)
    assert np.array_equal(vector(mine), expected)
    assert made.bytes_sent == bytes_sent


def virtual(method):
    """What each rank ends with, and what it sent."""
    everybody = [parameters(r) for r in range(P)]
    workers = Workers(method, topology.ring(P), everybody, **METHODS[method])
    for _ in range(5):
        workers.mix(everybody)
        workers.step(everybody, [{name: np.ones_like(x) for name, x in each.items()} for each in everybody])
    return list(zip(map(vector, everybody), workers.bytes_sent))


@pytest.mark.ranks(4, 7)
@pytest.mark.parametrize("make", [mpicomp.torus, mpicomp.grid, mpicomp.exponential, mpicomp.complete, mpicomp.star])
def test_every_graph_comes_to_an_agreement(make):
    comm = make(WORLD.Dup(), codec="natural")
    x = np.random.default_rng(comm.rank).normal(size=(6, 20))
    mean = np.empty_like(x)
    WORLD.Allreduce(x / P, mean)
    method = gossip.Choco(comm, x, gamma=0.4)
    for _ in range(150):
        method.mix(x)
    assert np.allclose(x, mean, rtol=0, atol=0.05)
    kept = np.empty_like(x)
    WORLD.Allreduce(x / P, kept)
    assert np.allclose(kept, mean, rtol=0, atol=1e-12)
    comm.Free()


def test_a_plain_mpi4py_cartcomm_will_do():
    cart = WORLD.Create_cart([P], [True])
    x = np.full((3, 4), float(cart.rank))
    method = gossip.PowerGossip(cart, x)
    for _ in range(60):
        method.mix(x)
    assert np.allclose(x, (P - 1) / 2, atol=0.05 * P)
    cart.Free()


def test_ranks_that_disagree_all_get_an_error(ring):
    if P == 1:
        pytest.skip("nobody to disagree with")
    x = np.zeros(50, "f4")
    method = gossip.Choco(ring, x, gamma=0.1 + 0.1 * (ring.rank == 0))
    with pytest.raises(mpicomp.DisagreementError):
        method.mix(x)


def test_a_rank_with_wrong_parameters_tells_the_others(ring):
    x = np.zeros((4, 5))
    method = gossip.DCD(ring, x)
    wrong = np.zeros((4, 6))
    with pytest.raises(mpicomp.Error):
        for _ in range(P + 1):
            method.mix(wrong if ring.rank == 0 else x)


@pytest.mark.parametrize("method", ["dpsgd", "dcd", "powergossip"])
def test_a_rank_with_a_wrong_update_tells_the_others_before_anything_is_sent(ring, method):
    x, update, wrong = np.zeros((6, 5)), np.ones((6, 5)), np.ones((5, 5))
    made = gossip.find(method)(ring, x)
    with pytest.raises(mpicomp.Error, match=r"update is f64 \(5, 5\)"):
        for _ in range(P + 1):
            made.step(x, wrong if ring.rank == 0 else update)
    if P <= 3:  # all are neighbours of rank 0
        assert made.calls == 0
        made = gossip.find(method)(ring, x)
        made.step(x, update)
        assert made.calls == 1


@pytest.mark.ranks(2, 3)  # all are neighbours of rank 0
@pytest.mark.parametrize("method", METHODS)
def test_a_failed_call_leaves_the_parameters_as_they_were(ring, method):
    x, update = np.full((6, 5), 1.0 + ring.rank), np.ones((6, 5))
    made = gossip.find(method)(ring, x, **METHODS[method])
    made.mix(x)
    before = x.copy()
    with pytest.raises(mpicomp.Error):
        made.step(x if ring.rank else np.ones((6, 6)), update)
    assert np.array_equal(x, before)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("how", ["segment", "shapes", "names", "seed"])
def test_ranks_whose_methods_differ_all_get_an_error(ring, how):
    odd = ring.rank == 0
    x = np.ones(6000, "f4")
    params = {"shapes": [x[:10], x[10:]] if odd else [x[:20], x[20:]], "names": {"ab"[odd]: x}}.get(how, x)
    options = {"segment": {"segment": 4000 if odd else 8000}, "seed": {"seed": int(odd)}}.get(how, {})
    made = gossip.Choco(ring, params, "natural", gamma=0.1, **options)
    with pytest.raises(mpicomp.DisagreementError, match=r"shapes|graph=|segment=|seed="):
        made.mix(params)
    assert np.all(x == 1)


@pytest.mark.ranks(2, 3)
def test_ranks_that_count_differently_all_get_an_error(ring):
    x = np.ones(100)
    made = gossip.DCD(ring, x, "natural")
    made.mix(x)
    if ring.rank == 0:
        made.reset()
    with pytest.raises(mpicomp.Error):
        made.mix(x)
    assert np.all(x == 1)


def test_dicts_go_by_name(ring):
    x = {"a": np.full(3, 1.0), "b": np.full(3, 2.0)}
    if ring.rank == 0:
        x = dict(reversed(x.items()))
    gossip.DPSGD(ring, x).mix(x)
    assert np.allclose(x["a"], 1) and np.allclose(x["b"], 2)


@pytest.mark.ranks(2, 3)
def test_a_rank_that_cannot_make_a_method_tells_the_others(ring):
    x = np.ones(8, int if ring.rank == 0 else float)
    with pytest.raises(mpicomp.Error, match="floating-point"):
        gossip.DPSGD(ring, x).mix(x)


def test_save_and_restore(ring):
    x = parameters(ring.rank)
    method = gossip.Choco(ring, x, codec="natural", gamma=0.3)
    method.mix(x)
    state, kept = method.state_dict(), {name: value.copy() for name, value in x.items()}
    method.mix(x)
    again = gossip.Choco(ring, kept, codec="natural", gamma=0.3)
    again.load_state_dict(state)
    again.mix(kept)
    assert np.array_equal(vector(x), vector(kept))


@pytest.mark.host
@pytest.mark.ranks(1, 2, 4)  # where test_torch.py has torch imported
def test_a_torch_model_is_mixed_in_place(ring):
    torch = pytest.importorskip("torch")
    torch.manual_seed(ring.rank)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 2))
    method = gossip.PowerGossip(ring, model.parameters())
    for _ in range(150):
        method.mix(model.parameters())
    mine = np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])
    everybody = np.empty((P, mine.size), "f4")
    WORLD.Allgather(mine, everybody)
    assert np.abs(everybody - everybody.mean(axis=0)).max() < 0.05
