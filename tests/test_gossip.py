"""Gossip methods on virtual ranks: the same code as on MPI, in one process."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mpicomp
from mpicomp import gossip, topology
from mpicomp.codecs import names
from mpicomp.gossip import Workers
from mpicomp.gossip.base import safe_rate
from mpicomp.ports.sim import Costs, Network

RING = topology.ring(8)
KEEP_THE_MEAN = {
    "dpsgd": {},
    "choco": {"codec": "natural", "gamma": 0.3},
    "deepsqueeze": {"codec": "natural", "gamma": 0.1},
}
KEEP_THE_MEAN["powergossip"] = {}
LOSSY = {**KEEP_THE_MEAN, "naive": {"codec": "natural"}, "dcd": {"codec": "natural"}}
ALL = {**LOSSY, "ecd": {"codec": "grid:step=0.1,bits=16"}}


def normal(p, shape, dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for _ in range(p)]


def spread(xs):
    """mean_i |X_i - mean|^2"""
    mean = np.mean(xs, axis=0)
    return float(np.mean([np.sum((x - mean) ** 2) for x in xs]))


def mixed(method, xs, calls, graph=RING, **options):
    workers = Workers(method, graph, xs, **options)
    for _ in range(calls):
        workers.mix(xs)
    return workers


def codecs():
    """Every codec that carries float32 in its default form."""
    return [name for name in names() if "f32" in mpicomp.codec(name).kinds and name != "lowrank"]  # for Allreduce only


# Consensus


@pytest.mark.parametrize("method", ["dpsgd", "naive", "dcd", "ecd"])
def test_with_an_exact_codec_one_step_is_multiplication_by_the_mixing_matrix(method):
    xs = normal(8, 33)
    wanted = RING.matrix @ np.array(xs)
    mixed(method, xs, 1, **({} if method == "dpsgd" else {"codec": "raw"}))
    assert np.allclose(xs, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("p", [1, 2, 3])
def test_small_rings_come_to_an_agreement(method, p):
    xs = normal(p, (6, 5))
    before = spread(xs)
    mixed(method, xs, 200, topology.ring(p), **ALL[method])
    if p == 1:
        assert np.array_equal(xs, normal(1, (6, 5))), "alone, nothing is compressed"
    assert spread(xs) <= 0.2 * before


@pytest.mark.parametrize("method", KEEP_THE_MEAN)
def test_the_mean_is_kept_to_rounding(method):
    xs = [x + 100 for x in normal(8, (20, 30), "f4")]
    before = np.mean(xs, axis=0, dtype="f8")
    mixed(method, xs, 400, **KEEP_THE_MEAN[method])
    assert np.abs(np.mean(xs, axis=0, dtype="f8") - before).max() < 100 * 400**0.5 * 2.0**-24


@pytest.mark.parametrize("method", ["dpsgd", "dcd", "powergossip"])
def test_equal_parameters_stay_as_they_are(method):
    xs = [np.full((4, 6), 0.3) for _ in range(8)]
    mixed(method, xs, 20, **({"codec": "natural"} if method == "dcd" else {}))
    assert np.allclose(xs, 0.3, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "method, options, calls, wanted",
    [
        ("dpsgd", {"rate": RING.diffusion_rate}, (10, 50), (10.3, 5.7e-10)),
        ("powergossip", {}, (100, 500), (2.7e3, 118)),
        ("powergossip", {"warm_start": False}, (100, 500), (3.3e3, 327)),
        ("powergossip", {"iterations": 2}, (100, 500), (954, 6.5)),
    ],
)
def test_consensus_of_matrices_takes_as_many_calls_as_published(method, options, calls, wanted):
    xs = normal(8, (100, 100))
    assert spread(xs) == pytest.approx(8.7e3, rel=0.02)
    workers, done = Workers(method, RING, xs, **options), 0
    for count, error in zip(calls, wanted):
        for _ in range(count - done):
            workers.mix(xs)
        done = count
        assert error / 2 < spread(xs) < error * 2


def test_chocos_safe_rate_brings_the_ranks_closer_with_every_codec():
    for name in codecs():
        codec = mpicomp.codec(name)
        if not np.isfinite(codec.omega(200)) or (not codec.unbiased and codec.omega(200) >= 1):
            continue
        xs = normal(8, 200, "f4")
        before = spread(xs)
        mixed("choco", xs, 150, codec=name)
        assert spread(xs) < before, name


def test_chocos_safe_rate_is_the_theorems():
    gap, b, delta = RING.spectral_gap, RING.roughness, 8 / 9
    wanted = gap**2 * delta / (16 * gap + gap**2 + 4 * b**2 + 2 * gap * b**2 - 8 * gap * delta)
    assert safe_rate(RING, mpicomp.codec("natural"), 10) == pytest.approx(wanted)
    with pytest.raises(mpicomp.CodecError, match="gamma"):
        Workers("choco", RING, normal(8, 5), codec="grid")
    assert Workers("choco", RING, normal(8, 5), codec="grid", gamma=0.1).methods[0].gamma == 0.1


# Replicas and estimates


@pytest.mark.parametrize("name", codecs())
def test_replicas_are_the_same_bits_everywhere_over_a_thousand_steps(name):
    ring, n = topology.ring(3), 70
    xs = normal(3, n, "f4")
    workers = Workers("dcd", ring, xs, codec=name)
    rng = np.random.default_rng(1)
    for step in range(1000):
        workers.step(xs, [0.001 * rng.normal(size=n).astype("f4") for _ in xs])
        if step % 100 == 0:
            for me, method in enumerate(workers.methods):
                for other in (me, *method.neighbors):
                    assert method.memory.estimates[other].tobytes() == xs[other].tobytes()


def test_estimates_of_an_exact_codec_are_the_values():
    xs = normal(8, 40)
    workers = Workers("ecd", RING, xs, codec="raw")
    rng = np.random.default_rng(1)
    for _ in range(100):
        workers.step(xs, [0.1 * rng.normal(size=40) for _ in xs])
        for me, method in enumerate(workers.methods):
            assert np.allclose(method.memory.replica, xs[me], rtol=0, atol=1e-12)


def test_ecd_warns_of_codecs_whose_error_grows():
    with pytest.warns(RuntimeWarning, match="grid"):
        Workers("ecd", RING, normal(8, 5), codec="natural")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Workers("ecd", RING, normal(8, 5), codec="grid:step=0.5,bits=4")
        Workers("ecd", RING, normal(8, 5), codec="grid:step=0.5,bits=4|zstd")
        Workers("ecd", RING, normal(8, 5), codec="raw")


def test_what_the_user_changes_between_calls_counts_as_an_update():
    updates = normal(8, 50, seed=2)
    results = []
    for changed in (True, False):
        xs = normal(8, 50)
        workers = mixed("dcd", xs, 1, codec="natural")
        for _ in range(5):
            if changed:
                for x, update in zip(xs, updates):
                    x += update
                workers.mix(xs)
            else:
                workers.step(xs, updates)
        results.append(np.array(xs))
    assert np.array_equal(*results)


# PowerGossip


def test_a_random_direction_takes_off_its_share_of_the_difference():
    shares = []
    for seed in range(200):
        xs = normal(2, (20, 30), seed=seed)
        before = np.sum((xs[1] - xs[0]) ** 2)
        mixed("powergossip", xs, 1, topology.ring(2), seed=seed, rank=3, rate=1.0)
        shares.append(np.sum((xs[1] - xs[0]) ** 2) / before)
    assert np.mean(shares) == pytest.approx(1 - 3 / 30, abs=4 * np.std(shares) / 200**0.5)


def test_a_rank_one_difference_is_gone_in_two_iterations_between_two():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(7, 9))
    xs = [common.copy(), common + np.outer(rng.normal(size=7), rng.normal(size=9))]
    mixed("powergossip", xs, 1, topology.ring(2), iterations=3)
    assert np.allclose(xs[0], xs[1], rtol=0, atol=1e-12)
    assert not np.allclose(xs[0], common)


def test_both_ends_of_an_edge_hold_the_same_factors():
    xs = normal(8, (12, 8), "f4")
    workers = mixed("powergossip", xs, 7, rank=2)
    for me, method in enumerate(workers.methods):
        for e, other in enumerate(method.neighbors):
            theirs = workers.methods[other]
            back = theirs.neighbors.index(me)
            for side in (0, 1):
                for mine, its in zip(method.factors[side], theirs.factors[side]):
                    assert np.array_equal(mine[e], its[back])


def test_vectors_are_mixed_exactly_beside_the_matrices():
    trees = [{"w": a, "b": b} for a, b in zip(normal(8, (6, 7)), normal(8, 11, seed=1))]
    wanted = np.array([tree["b"] for tree in trees])
    rate = RING.diffusion_rate
    wanted += rate * (RING.matrix @ wanted - wanted)
    mixed("powergossip", trees, 1, iterations=4)
    assert np.allclose([tree["b"] for tree in trees], wanted)


def test_agreement_is_a_fixed_point_and_can_be_left_again():
    xs = [np.ones((5, 6)) for _ in range(8)]
    workers = mixed("powergossip", xs, 4, rank=2)
    assert np.array_equal(xs, np.ones((8, 5, 6)))
    xs[3] += normal(1, (5, 6))[0]
    before = spread(xs)
    for _ in range(200):
        workers.mix(xs)
    assert spread(xs) < 1e-6 * before


def resnet20():
    """The shapes of a ResNet-20 for CIFAR-10 with 272,474 parameters."""
    norm, shapes = (lambda c: [(c,), (c,)]), [(16, 3, 3, 3)]
    shapes += norm(16)
    before = 16
    for width in (16, 32, 64):
        for block in range(3):
            shapes += [(width, before, 3, 3), *norm(width), (width, width, 3, 3), *norm(width)]
            if block == 0 and before != width:
                shapes += [(width, before, 1, 1), *norm(width)]
            before = width
    return [*shapes, (10, 64), (10,)]


@pytest.mark.parametrize("iterations, megabytes", [(1, 1.90), (2, 3.19)])
def test_bytes_of_a_resnet20_are_as_published(iterations, megabytes):
    ring = topology.ring(8)
    trees = [[np.zeros(shape, "f4") for shape in resnet20()] for _ in range(8)]
    assert sum(x.size for x in trees[0]) == pytest.approx(272474, rel=0.02)
    workers = mixed("powergossip", trees, 49, ring, iterations=iterations)
    assert workers.bytes_sent[0] / 1e6 == pytest.approx(megabytes, rel=0.03)


# Where the gradient goes: f_i(x) = |x - b_i|^2 / 2 with noisy gradients


def quadratic(method, steps=500, lr=0.05, noise=0.02, n=100, shape=(100,), **options):
    """The squared error of the mean after training on the ring of 8."""
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(8, n))
    xs = [np.zeros(shape) for _ in range(8)]
    workers = Workers(method, RING, xs, **options)
    with np.errstate(all="ignore"):
        for _ in range(steps):
            noises = noise * rng.normal(size=(8, n))
            gradients = [x.ravel() - b + e for x, b, e in zip(xs, targets, noises)]
            workers.step(xs, [-lr * g.reshape(shape) for g in gradients])
    return float(np.sum((np.mean(xs, axis=0).ravel() - targets.mean(axis=0)) ** 2))


def test_naive_compression_fails_where_the_others_reach_the_uncompressed_error():
    exact = quadratic("dpsgd")
    assert exact < 1e-3
    assert quadratic("naive", codec="natural") > 50 * exact
    assert quadratic("dcd", codec="natural") < 3 * exact
    assert quadratic("choco", codec="natural", gamma=0.3) < 3 * exact
    assert quadratic("powergossip", shape=(10, 10)) < 3 * exact
    assert quadratic("ecd", codec="grid:step=0.004,bits=16") < 3 * exact


def test_the_update_is_added_where_the_method_wants_it():
    for method in ("dpsgd", "naive", "powergossip", "dcd", "ecd"):
        xs, updates = normal(8, 12), normal(8, 12, seed=3)
        plain, moved = RING.matrix @ np.array(xs), np.array(updates)
        rate = {"rate": 1.0} if method == "powergossip" else {} if method == "dpsgd" else {"codec": "raw"}
        Workers(method, RING, xs, **rate).step(xs, updates)
        assert np.allclose(xs, plain + moved), method
    xs, updates = normal(8, 12), normal(8, 12, seed=3)
    wanted = np.array(xs) + updates
    Workers("choco", RING, xs, codec="raw", gamma=1.0).step(xs, updates)
    assert np.allclose(xs, wanted), "CHOCO's replicas start at zero: nothing is pulled yet"


# What can be mixed


@pytest.mark.parametrize("method", ALL)
def test_lists_dicts_and_tensors_are_mixed_like_one_array(method):
    torch = pytest.importorskip("torch")
    shapes = [(4, 5), (7,), (), (0, 3), (2, 3, 4)]
    forms = {
        "dict": lambda arrays: {f"layer {i}": x for i, x in enumerate(arrays)},
        "list": list,
        "torch": lambda arrays: [torch.nn.Parameter(torch.from_numpy(x)) for x in arrays],
    }
    results = []
    for make in forms.values():
        rng = np.random.default_rng(0)
        arrays = [[np.array(rng.normal(size=shape)) for shape in shapes] for _ in range(8)]
        trees = [make(each) for each in arrays]
        workers = mixed(method, trees, 3, **ALL[method])
        workers.step(trees, [make([np.ones(shape) for shape in shapes]) for _ in range(8)])
        results.append(np.concatenate([x.ravel() for each in arrays for x in each]))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])
    if method != "powergossip":
        rng = np.random.default_rng(0)
        xs = [np.concatenate([np.ravel(rng.normal(size=shape)) for shape in shapes]) for _ in range(8)]
        workers = mixed(method, xs, 3, **ALL[method])
        workers.step(xs, [np.ones_like(x) for x in xs])
        assert np.array_equal(np.concatenate(xs), results[0])


@pytest.mark.parametrize("method", ALL)
def test_halves_are_mixed_in_float32(method):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16):
        xs = [torch.from_numpy(x).to(dtype) for x in normal(8, (6, 8))]
        before = spread([x.float().numpy() for x in xs])
        mixed(method, xs, 100, **ALL[method])
        assert all(x.dtype == dtype for x in xs)
        assert spread([x.float().numpy() for x in xs]) < 0.5 * before


@pytest.mark.parametrize("method", ALL)
def test_bits_depend_on_the_seed_only(method):
    def run(seed, segment=None):
        xs = normal(8, (40, 50), "f4")
        options = dict(ALL[method])
        if segment and method != "powergossip":
            options["segment"] = segment
        mixed(method, xs, 3, seed=seed, **options)
        return np.array(xs)

    assert np.array_equal(run(1), run(1))
    assert np.array_equal(run(1), run(1, segment=1024))
    if method != "dpsgd":
        assert not np.array_equal(run(1), run(2))


@pytest.mark.parametrize("method", ALL)
def test_a_method_can_be_saved_and_goes_on_as_it_would_have(method):
    xs = normal(8, (9, 7), "f4")
    workers = mixed(method, xs, 4, **ALL[method])
    states, kept = [each.state_dict() for each in workers.methods], [x.copy() for x in xs]
    for _ in range(4):
        workers.mix(xs)
    again = Workers(method, RING, kept, **ALL[method])
    for each, state in zip(again.methods, states):
        each.load_state_dict(state)
    for _ in range(4):
        again.mix(kept)
    assert np.array_equal(xs, kept)
    for each in again.methods:
        each.reset()
    fresh = [x.copy() for x in kept]
    again.mix(kept)
    mixed(method, fresh, 1, **ALL[method])
    assert np.array_equal(fresh, kept)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"calls": -1}, "calls=-1 must be at least 0"),
        ({"method": "DCD"}, "its method is 'DCD', expected 'Choco'"),
        ({"rank": 3}, "of rank 3; this is rank 0"),
        ({"number": 0.5}, "number=0.5 must be a whole number"),
        ({"seed": None}, "seed=None must be a whole number"),
        ({"last": np.zeros(1)}, r"has shape \(1,\), expected \(5,\)"),
        ({"last": [0.0] * 5}, "a list for"),
        ({"last": np.zeros(5, complex)}, "complex128 numbers"),
        ({"more": 1}, "another method.*'more'.*expected .*'calls'"),
    ],
)
def test_a_wrong_state_is_refused_and_changes_nothing(change, words):
    xs = normal(8, 5)
    each = mixed("choco", xs, 2, **ALL["choco"]).methods[0]
    before = each.state_dict()
    state = {name: value if name in ("method", "rank") else value + 1 for name, value in before.items()}
    last = list(state)[-1]
    with pytest.raises(ValueError, match=words):
        each.load_state_dict({**state, **{last if name == "last" else name: value for name, value in change.items()}})
    after = each.state_dict()
    assert all(np.array_equal(after[name], before[name]) for name in before)
    with pytest.raises(TypeError, match="not None"):
        each.load_state_dict(None)


@pytest.mark.parametrize("method", ["dcd", "ecd"])
@pytest.mark.parametrize("codec", ["qsgd:bits=4", "topk:ratio=0.01", "natural"])
def test_large_arrays_that_are_equal_stay_what_they_are(method, codec):
    """The exact start and what follows it are cut alike, however short the codec's wires are."""
    x = normal(1, 1_000_000, "f4")[0]
    xs = [x.copy(), x.copy()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed(method, xs, 1, topology.ring(2), codec=codec)
    assert np.array_equal(xs[0], x) and np.array_equal(xs[1], x)


def test_deepsqueeze_forgets_an_exchange_that_failed():
    xs = [np.full(8, 5.0), np.full(8, 5.0)]
    workers = mixed("deepsqueeze", xs, 2, topology.ring(2), codec="raw", gamma=0.5)
    for each in workers.methods:
        each._change[:] = 77  # what a call leaves that ends in the middle
        each.reset()
    workers.mix(xs)
    assert np.array_equal(xs, np.full((2, 8), 5.0))


@pytest.mark.parametrize("params", [[], {}, np.ones(5), [np.ones(3), np.ones(4)]])
@pytest.mark.parametrize("iterations", [1, 2])
def test_powergossip_mixes_what_has_no_matrices(params, iterations):
    kept = [params, params if isinstance(params, np.ndarray) else type(params)(params)]
    mixed("powergossip", kept, 2, topology.ring(2), iterations=iterations)


def test_a_resumed_powergossip_draws_what_the_saved_one_would():
    xs = normal(2, (6, 5))
    first = mixed("powergossip", xs, 2, topology.ring(2), warm_start=False, seed=1)
    states, kept = [each.state_dict() for each in first.methods], [x.copy() for x in xs]
    first.mix(xs)
    second = Workers("powergossip", topology.ring(2), kept, warm_start=False, seed=2)
    for each, state in zip(second.methods, states):
        each.load_state_dict(state)
    second.mix(kept)
    assert np.array_equal(xs, kept)


def test_an_update_in_another_order_or_read_only():
    x, update = np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 0.0]])
    method = Workers("choco", topology.ring(1), [x], gamma=0.1)
    with pytest.raises(mpicomp.Error, match="Fortran"):
        method.step([x], [np.asfortranarray(update)])
    update.flags.writeable = False
    method.step([x], [update])
    assert np.array_equal(x, update)


def test_arrays_that_share_memory_are_refused():
    x = np.zeros(6)
    workers = Workers("dpsgd", topology.ring(1), [[x, np.zeros(6)]])
    with pytest.raises(mpicomp.Error, match="mixed twice"):
        workers.mix([[x, x[:]]])


def test_rates_are_numbers_and_weights_can_average():
    for method, options in (("choco", {"gamma": np.nan}), ("dpsgd", {"rate": np.inf}), ("powergossip", {"rate": "x"})):
        with pytest.raises(ValueError, match="must be a finite number"):
            Workers(method, RING, normal(8, 5), **options)
    swapping = topology.ring(2, weights=[[0, 1], [1, 0]])
    with pytest.raises(topology.TopologyError, match="spectral gap is 0"):
        Workers("choco", swapping, normal(2, 5))


def test_nan_reaches_the_neighbours_and_is_never_a_number():
    for method, options in ALL.items():
        xs = normal(4, (6, 6))
        xs[0][2, 2] = np.nan
        mixed(method, xs, 2, topology.ring(4), **options)
        assert np.isnan(xs[0]).any() and np.isnan(xs[1]).any() and np.isnan(xs[3]).any(), method


def test_what_cannot_be_mixed_is_refused():
    xs = normal(8, 5)
    workers = Workers("dcd", RING, xs, codec="natural")
    with pytest.raises(mpicomp.Error, match="as at the start"):
        workers.mix(normal(8, 6))
    with pytest.raises(mpicomp.Error, match="floating-point"):
        Workers("dcd", RING, [np.arange(3)] * 8)
    with pytest.raises(mpicomp.Error, match="one type"):
        Workers("dcd", RING, [[np.zeros(3), np.zeros(3, "f4")]] * 8)
    with pytest.raises(ValueError, match="no gossip method"):
        Workers("gossipy", RING, xs)
    with pytest.raises(ValueError, match="rank=0"):
        Workers("powergossip", RING, xs, rank=0)


def test_methods_are_found_by_name():
    assert gossip.find("power-gossip") is gossip.PowerGossip
    assert gossip.find("Choco") is gossip.Choco
    assert gossip.find(gossip.DCD) is gossip.DCD


# Many workers and the virtual clock


def test_hundreds_of_workers_average_on_any_graph():
    for graph in (topology.torus((16, 16)), topology.hypercube(128), topology.exponential(100)):
        xs = normal(graph.size, 20)
        mean, before = np.mean(xs, axis=0), spread(xs)
        mixed("dpsgd", xs, 6, graph)
        assert spread(xs) < 0.2 * before
        assert np.allclose(np.mean(xs, axis=0), mean)


def test_the_virtual_clock_counts_bytes_latency_and_arithmetic():
    xs = normal(8, 1000, "f4")
    network = Network(latency=1e-3, bandwidth=1e6)
    exact = Workers("dpsgd", RING, xs, network=network)
    assert exact.mix(xs) == pytest.approx(1e-3 + 8e-3)  # two messages of 4,000 bytes on one link
    assert exact.bytes_sent == [8000] * 8
    natural = Workers("choco", RING, xs, codec="natural", network=network)
    assert natural.mix(xs) == pytest.approx(1e-3 + 2 * 1.125e-3)
    slow = Workers("choco", RING, xs, codec="natural", network=network, costs=Costs(encode=1e6, decode=1e9))
    assert slow.mix(xs) == pytest.approx(4e-3 + 1e-3 + 2 * 1.125e-3, rel=0.01)
