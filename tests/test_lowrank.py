"""lowrank: PowerSGD as NumPy would write it, exact where it should be, the same bits everywhere, remembered."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from common import DTYPES, normal, use_level

import mpicomp
from mpicomp import arrays, planning, settings, simulation
from mpicomp.codecs.lowrank import random_factor
from mpicomp.fusion import Fused
from mpicomp.job import SHARED
from mpicomp.memory import Factors, remember
from mpicomp.reference.rng import stream_key
from mpicomp.settings import SettingError

RANK2 = mpicomp.codec("lowrank:rank=2")


def product(m, n, rank, seed=0, noise=0.0, dtype="f4"):
    rng = np.random.default_rng(seed)
    exact = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    return (exact + noise * rng.standard_normal((m, n))).astype(dtype)


def allreduce(xs, codec="lowrank:rank=2", **kwargs):
    """The result, the same bits on every rank."""
    outs = simulation.allreduce(xs, codec=codec, algorithm="lowrank", **kwargs).arrays
    assert len({out.tobytes() for out in outs}) == 1
    return outs[0]


def memories(xs, codec=RANK2, feedback=True):
    return [Factors(arrays.flatten(x), codec, feedback) for x in xs]


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("op", ["sum", "mean"])
def test_it_is_powersgd(feedback, op):
    p, shape = 3, (50, 70)
    xs = [product(*shape, 5, seed, 0.3, "f8") for seed in range(p)]
    kept, errors = memories(xs, feedback=feedback), [np.zeros(shape) for _ in xs]
    q = random_factor(140, arrays.flatten(xs[0]), stream_key(stream_key(0, 0, 0, SHARED), 0)).reshape(2, 70).T
    for call in range(4):
        inputs = [x + error for x, error in zip(xs, errors)]
        left = np.linalg.qr(sum(m @ np.linalg.qr(q)[0] for m in inputs))[0]
        q = sum(m.T @ left for m in inputs)
        mean = left @ q.T / p
        out = allreduce(xs, call=call, op=op, memories=kept)
        assert np.allclose(out, mean if op == "mean" else p * mean, rtol=1e-9, atol=1e-9)
        if feedback:
            errors = [m - mean for m in inputs]
            for memory, error in zip(kept, errors):
                assert np.allclose(memory.items[0].residual.reshape(shape), error, atol=1e-9)


@pytest.mark.parametrize("kind", DTYPES)
def test_the_input_is_the_mean_and_what_is_remembered(kind):
    xs = [product(60, 80, 4, seed, 0.5, DTYPES[kind]) for seed in range(4)]
    kept = memories(xs)
    before = [memory.items[0].residual.copy() for memory in kept]
    for call in range(3):
        mean = allreduce(xs, op="mean", call=call, memories=kept).astype("f8")
        tolerance = 1e-12 if kind == "f64" else 1e-5
        for x, old, memory in zip(xs, before, kept):
            given = x.astype("f8") + old.reshape(60, 80)
            assert np.allclose(mean + memory.items[0].residual.reshape(60, 80), given, rtol=tolerance, atol=tolerance)
        before = [memory.items[0].residual.copy() for memory in kept]


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_matrices_of_low_rank_are_exact_at_once(rank):
    base = product(90, 120, rank, dtype="f8")
    xs = [(k + 1.0) * base for k in range(4)]
    assert np.allclose(allreduce(xs, codec=f"lowrank:rank={rank}"), 10 * base, rtol=1e-9, atol=1e-9)


def test_a_warm_start_turns_to_the_strongest_directions():
    xs = [product(100, 150, 8, seed, 0.5) for seed in range(3)]
    total = np.sum(xs, axis=0)
    best = np.sqrt(np.sum(np.linalg.svd(total)[1][2:] ** 2))
    kept = memories(xs, feedback=False)
    errors = [np.linalg.norm(allreduce(xs, call=call, memories=kept) - total) for call in range(30)]
    assert errors[0] > 1.01 * best and errors[-1] < 1.001 * best
    assert all(b <= a * (1 + 1e-5) for a, b in zip(errors, errors[1:]))


def test_feedback_loses_nothing_in_the_long_run():
    xs = [product(40, 60, 6, seed, 1.0) for seed in range(3)]
    total, kept, given = np.sum(xs, axis=0), memories(xs), np.zeros((40, 60))
    for call in range(60):
        given += allreduce(xs, call=call, memories=kept)
    assert np.linalg.norm(given / 60 - total) < 0.3 * np.linalg.norm(total)
    single = allreduce(xs)
    assert np.linalg.norm(single - total) > 0.6 * np.linalg.norm(total)


@pytest.mark.parametrize("shape", [(100,), (3, 5), (1, 1000), (1000, 1), (0, 5), (8, 4, 2)])
def test_vectors_and_small_matrices_are_exact(shape):
    assert RANK2.matrix(shape) is None
    x = np.random.default_rng(1).standard_normal(shape)
    assert np.array_equal(RANK2.decode(RANK2.encode(x), like=x), x)
    plan = planning.choose(settings.make("lowrank"), x.size, "f64", 4, None, (shape,))
    assert plan.algorithm == "raw"


def test_arrays_of_more_dimensions_are_seen_as_rows_and_all_the_rest():
    xs = [product(32, 48, 3, seed, 0.2).reshape(32, 4, 12) for seed in range(3)]
    flat = [x.reshape(32, 48) for x in xs]
    assert np.array_equal(allreduce(xs).reshape(32, 48), allreduce(flat))


def test_arrays_in_fortran_order_are_seen_as_they_are_in_memory():
    xs = [np.asfortranarray(product(40, 60, 3, seed, 0.2)) for seed in range(3)]
    turned = [np.ascontiguousarray(x.T) for x in xs]
    assert np.array_equal(allreduce(xs), allreduce(turned).T)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_and_levels_do_not_change_the_bits(threads, monkeypatch):
    xs = [product(900, 1024, 3, seed, 0.5) for seed in range(2)]
    monkeypatch.setenv("MPICOMP_NUM_THREADS", threads)
    digest = hashlib.blake2b(allreduce(xs).tobytes(), digest_size=8).hexdigest()
    for level in ("v1", "reference"):
        use_level(monkeypatch, level)
        assert hashlib.blake2b(allreduce(xs).tobytes(), digest_size=8).hexdigest() == digest


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_make_their_matrix_nan_and_are_forgotten(bad):
    good = [product(40, 60, 3, seed, 0.5) for seed in range(3)]
    spoilt = [x.copy() for x in good]
    spoilt[1][7, 9] = bad
    kept = memories(good)
    assert np.all(np.isfinite(allreduce(good, memories=kept)))
    assert np.all(np.isnan(allreduce(spoilt, call=1, memories=kept)))
    assert np.all(np.isfinite(allreduce(good, call=2, memories=kept)))


def test_matrices_without_anything_in_them_do_not_stop_later_ones():
    zeros, xs = [np.zeros((40, 60), "f4")] * 3, [product(40, 60, 2, seed) for seed in range(1)] * 3
    kept = memories(zeros)
    assert not allreduce(zeros, memories=kept).any()
    assert np.allclose(allreduce(xs, call=1, memories=kept), 3 * xs[0], atol=1e-4)
    tiny = [np.float32(1e-30) * x for x in xs]
    assert np.allclose(allreduce(tiny), 3 * tiny[0], rtol=1e-3, atol=1e-33)


def test_many_arrays_travel_together():
    """Matrices, a vector and a small one: two messages for each peer and side, whatever their number."""
    shapes = [(40, 60), (500,), (64, 100), (3, 3)]
    ranks = [[normal(int(np.prod(s)), seed=10 * r + k).reshape(s) for k, s in enumerate(shapes)] for r in range(3)]
    wholes = [Fused([arrays.flatten(x) for x in xs], 64) for xs in ranks]
    kept = [remember(RANK2, "feedback", whole) for whole in wholes]
    from mpicomp.engine import Run
    from mpicomp.job import Randomness
    from mpicomp.ports.sim import Simulation
    from mpicomp.schedules.lowrank import lowrank

    inputs = [[x.copy() for x in xs] for xs in ranks]
    world = Simulation(3)

    def begin(port):
        job = kept[port.rank].job(
            RANK2, RANK2, wholes[port.rank], wholes[port.rank], 1.0, Randomness(0, 0, 0, 3), port.pool
        )
        return Run(port, [lowrank(port, job, port.tag(), ("gather", "direct"))])

    world.run(begin)
    assert all(port.messages_sent <= 2 * 2 * 2 for port in world.ports)
    for k, shape in enumerate(shapes):
        total = sum(inputs[r][k] for r in range(3))
        assert all(np.array_equal(ranks[r][k], ranks[0][k]) for r in range(3))
        if RANK2.matrix(shape) is None:
            assert np.allclose(ranks[0][k], total, atol=1e-5)
        else:
            assert np.linalg.matrix_rank(ranks[0][k], tol=1e-3) == 2
    assert sorted(dict(kept[0].arrays())) == ["0 residual", "0 right", "2 residual", "2 right"]


@pytest.mark.parametrize("feedback", [False, True])
def test_a_state_can_be_saved_restored_and_reset(feedback):
    xs = [product(40, 60, 5, seed, 0.5) for seed in range(3)]
    kept = memories(xs, feedback=feedback)
    first = allreduce(xs, memories=kept)
    saved = [memory.state_dict() for memory in kept]
    second = allreduce(xs, call=1, memories=kept)
    assert not np.array_equal(first, second)
    fresh = memories(xs, feedback=feedback)
    for memory, state in zip(fresh, saved):
        memory.load_state_dict(state)
    assert np.array_equal(allreduce(xs, call=1, memories=fresh), second)
    for memory in fresh:
        memory.reset()
    assert np.array_equal(allreduce(xs, memories=fresh), first)
    with pytest.raises(ValueError, match="another collective"):
        fresh[0].load_state_dict(memories([product(30, 60, 2)])[0].state_dict())


@pytest.mark.parametrize(
    "rows, cols, numbers",
    [
        pytest.param(300, 400, 3 * (300 + 400), id="short ones to all others"),
        pytest.param(60, 5000, 3 * 60 + 1.5 * 5000, id="long ones in chunks"),
    ],
)
def test_each_rank_sends_the_factors_alone(rows, cols, numbers):
    xs = [product(rows, cols, 2, seed) for seed in range(4)]
    result = simulation.allreduce(xs, codec="lowrank:rank=2", algorithm="auto")
    plan = planning.choose(settings.make("lowrank:rank=2"), xs[0].size, "f32", 4, None, (xs[0].shape,))
    assert plan.algorithm == "lowrank" and plan.wire_bytes == numbers * 2 * 4
    assert sum(result.bytes_sent) / 4 == plan.wire_bytes
    assert "lowrank" in str(plan)


@pytest.mark.parametrize(
    "codec, algorithm, feedback, words",
    [
        ("lowrank", "direct", None, "travels by algorithm 'lowrank'"),
        ("natural", "lowrank", None, "go together"),
        (("lowrank", "natural"), "auto", None, "go together"),
        ("lowrank", "auto", "ef21", "residual of its own"),
    ],
)
def test_what_does_not_go_together_is_refused(codec, algorithm, feedback, words):
    chosen = settings.make(codec, algorithm).override(feedback=feedback)
    with pytest.raises(SettingError, match=words):
        planning.choose(chosen, 10_000, "f32", 4, None, ((100, 100),))


@pytest.mark.parametrize("kind", DTYPES)
def test_it_encodes_matrices_on_its_own(kind):
    x = product(70, 90, 2, dtype=DTYPES[kind])
    wire = RANK2.encode(x, seed=3)
    assert wire.size == RANK2.wire_size(x.shape, DTYPES[kind]) == 160 * 2 * (8 if kind == "f64" else 4)
    out = RANK2.decode(wire, like=x)
    assert out.shape == x.shape and out.dtype == x.dtype
    accuracy = {"f64": 1e-9, "f32": 1e-4, "f16": 2e-2, "bf16": 2e-1}[kind]
    assert np.allclose(out.astype("f8"), x.astype("f8"), atol=accuracy, rtol=accuracy)
    with pytest.raises(mpicomp.WireError, match="bytes"):
        RANK2.decode(wire[:-4], like=x)
    noise = normal(70 * 90).reshape(70, 90)
    assert np.linalg.norm(RANK2.decode(RANK2.encode(noise), like=noise) - noise) <= np.linalg.norm(noise)


def test_its_wires_are_what_they_always_were():
    x = (np.arange(2000) * 7919 % 1009 - 500).astype("f4").reshape(40, 50)
    assert hashlib.blake2b(RANK2.encode(x, seed=7).tobytes(), digest_size=8).hexdigest() == "54c2d1201992de43"


def test_specs_and_chains():
    assert str(mpicomp.codec("lowrank:rank=4")) == "lowrank:rank=4" and mpicomp.codec("lowrank") == RANK2
    with pytest.raises(mpicomp.CodecError, match="at least 1"):
        mpicomp.codec("lowrank:rank=0")
    with pytest.raises(mpicomp.CodecError, match="no matrix"):
        mpicomp.codec("topk|lowrank")
    with pytest.raises(mpicomp.CodecError, match="only topk and randk"):
        mpicomp.codec("lowrank|natural")
