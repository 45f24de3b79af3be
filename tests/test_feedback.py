"""What persistent collectives remember: nothing that was given is lost, biased codecs converge, states can be saved."""

from __future__ import annotations

import numpy as np
import pytest
from common import DTYPES, normal

import mpicomp
from mpicomp import arrays, planning, settings, simulation
from mpicomp.fusion import Fused
from mpicomp.job import Pool, Randomness
from mpicomp.memory import EF21, ErrorFeedback, remember
from mpicomp.settings import SettingError

CODECS = ["topk:ratio=0.1", "topk:ratio=0.1|natural", "randk:ratio=0.1", "natural", "natural:rounding=nearest", "bf16"]
ALGORITHMS = ["direct", "ring", "halving", "gather", "server", "hierarchical:nodes_of=2"]
each_codec = pytest.mark.parametrize("codec", CODECS)
each_memory = pytest.mark.parametrize("make", [ErrorFeedback, EF21])


def calls(xs_of, codec, make, times, algorithm="direct", op="sum", segment=None, n=None):
    """The results of rank 0 of several calls, and the memories afterwards. All ranks must get the same bits."""
    kind = next(k for k, d in DTYPES.items() if d == xs_of(0)[0].dtype.type)
    memories = [make(xs_of(0)[0].size, kind) for _ in xs_of(0)]
    results = []
    for call in range(times):
        outs = simulation.allreduce(
            xs_of(call), op, codec, algorithm, call=call, segment=segment, memories=memories
        ).arrays
        assert len({out.tobytes() for out in outs}) == 1
        results.append(outs[0])
    return results, memories


@each_codec
@pytest.mark.parametrize("kind", DTYPES)
def test_what_was_sent_and_what_is_remembered_is_what_was_given(codec, kind):
    codec = mpicomp.codec(codec)
    if kind not in codec.kinds:
        return
    n = 70_001
    memory = ErrorFeedback(n, kind)
    given = np.zeros(n)
    for call in range(3):
        x = normal(n, kind, seed=call)
        flat, out = arrays.flatten(x), arrays.flatten(np.empty_like(x))
        job = memory.job(codec, codec, flat, out, 1.0, Randomness(1, call, 0, 4), Pool())
        before = memory.up.astype("f8")
        sent = np.zeros_like(memory.up)
        for lo, hi in ((0, 65_536), (65_536, n)):
            codec.add_into(job.encode(lo, hi), sent[lo:hi], kind, job.weight)  # as the owner of the sum does
        given = x.astype("f8") + before
        tolerance = 1e-12 if kind == "f64" else 2e-6
        assert np.allclose(sent + memory.up, given, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "codec", ["topk:ratio=0.1,block=512", ("topk:ratio=0.1,block=512", "natural"), "randk:block=512"]
)
@pytest.mark.parametrize("op", ["sum", "mean"])
def test_nothing_is_lost_in_a_collective(algorithm, codec, op):
    """All results and all that is remembered add up to all that was given, whatever the schedule does with it."""
    p, n, times = 4, 3000, 5
    xs = [[normal(n, "f64", seed=100 * call + rank) for rank in range(p)] for call in range(times)]
    results, memories = calls(xs.__getitem__, codec, ErrorFeedback, times, algorithm, op, segment=1 << 13)
    scale = 1 / p if op == "mean" else 1.0
    given = scale * np.sum(xs, axis=(0, 1))
    kept = sum(memory.down + scale * memory.up for memory in memories)
    assert np.allclose(np.sum(results, axis=0) + kept, given, rtol=1e-10, atol=1e-10)


@each_memory
def test_what_is_exact_stays_exact(make):
    """With a codec that loses nothing there is nothing to remember."""
    xs = [normal(1000, "f64", seed=rank) for rank in range(3)]
    results, memories = calls(lambda call: xs, "raw", make, 3)
    assert all(np.allclose(result, np.sum(xs, axis=0), rtol=1e-12) for result in results)
    if make is ErrorFeedback:
        assert not any(array.any() for memory in memories for _, array in memory.arrays())


def descend(codec, make, steps=300, p=4, n=400):
    """Relative distance from the optimum of sum |x - b_i|^2 after gradient steps that get smaller."""
    b = [normal(n, seed=rank, scale=3.0) for rank in range(p)]
    best, x = np.mean(b, axis=0), np.zeros(n, "f4")
    memories = [make(n, "f32") for _ in b] if make else None
    for t in range(steps):
        gradients = [x - each for each in b]
        mean = simulation.allreduce(gradients, "mean", codec, call=t, memories=memories).arrays[0]
        x = x - np.float32(0.1 / (1 + t / 50)) * mean
    return np.linalg.norm(x - best) / np.linalg.norm(best)


@pytest.mark.parametrize("codec", ["topk:ratio=0.05", "topk:ratio=0.05|natural", "natural:rounding=nearest"])
def test_biased_codecs_converge_with_feedback_and_fail_without(codec):
    without, with_it, ef21 = (descend(codec, make) for make in (None, ErrorFeedback, EF21))
    assert without > 0.1
    assert with_it < 0.1 * without
    assert ef21 < 1e-3


@each_memory
@pytest.mark.parametrize(
    "codec, steps",
    [
        ("randk:ratio=0.1", 300),
        ("topk:ratio=0.5|qsgd:bits=2", 600),
        ("randk:ratio=0.5|sign", 300),
        ("qsgd:bits=2", 600),
    ],
)
def test_feedback_is_stable_with_codecs_that_are_no_contraction(make, codec, steps):
    """randk alone multiplies by 10 what it keeps: without shrinking, residuals would grow without bound."""
    assert descend(codec, make, steps) < 0.15


def test_sign_converges_with_feedback_and_fails_without():
    assert descend("sign", None) > 0.1
    assert descend("sign", ErrorFeedback) < 0.05
    assert descend("sign", EF21) < 0.05


@each_memory
@each_codec
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_segments_and_virtual_memory_do_not_change_the_bits(make, codec, kind):
    if kind not in mpicomp.codec(codec).kinds:
        return
    xs = [[normal(140_001, kind, seed=10 * call + rank) for rank in range(3)] for call in range(2)]
    runs = [calls(xs.__getitem__, codec, make, 2, segment=segment)[0] for segment in (None, 1 << 17)]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*runs))


def test_nan_is_sent_and_not_remembered():
    xs = [[normal(1000, seed=rank) for rank in range(3)] for _ in range(3)]
    xs[0][1][5] = np.nan
    xs[0][2][700] = np.inf
    results, memories = calls(xs.__getitem__, "topk:ratio=0.1", ErrorFeedback, 3)
    assert np.isnan(results[0][5]) and not np.isfinite(results[0][700])
    assert all(np.all(np.isfinite(result)) for result in results[1:])
    assert all(np.all(np.isfinite(memory.up)) and np.all(np.isfinite(memory.down)) for memory in memories)


@each_memory
def test_what_is_too_large_for_its_type_is_sent_later_and_not_lost(make):
    """topk comes to each value every hundredth call; until then more has gathered than the type can hold."""
    xs, times = [np.full(512, 1000, "f2") for _ in range(2)], 120
    results, memories = calls(lambda call: xs, "topk:ratio=0.01,block=512", make, times)
    assert all(np.isfinite(result).all() for result in results)
    if make is ErrorFeedback:
        kept = sum(memory.up + memory.down for memory in memories)
        assert np.allclose(np.sum(results, axis=0, dtype="f8") + kept, times * 2000, rtol=1e-5)


@pytest.mark.parametrize(
    "kind, value, residual, most", [("f16", 60_000, 30_000, 65504), ("bf16", 3.3895314e38, 1e36, 3.3895314e38)]
)
def test_numbers_that_are_too_large_do_not_hide_infinite_ones(kind, value, residual, most):
    x = np.full(512, value, DTYPES[kind])
    x[3], x[5], given = np.inf, np.nan, x[0].astype("f4") + np.float32(residual)
    memory = ErrorFeedback(512, kind)
    memory.up[:] = residual
    codec, flat = mpicomp.codec("raw"), arrays.flatten(x)
    job = memory.job(codec, codec, flat, arrays.flatten(np.empty_like(x)), 1.0, Randomness(1, 0, 0, 2), Pool())
    sent = job.encode(0, 512).view(DTYPES[kind]).astype("f4")
    assert np.isposinf(sent[3]) and np.isnan(sent[5]) and (sent[:3] == np.float32(most)).all()
    assert (memory.up[[3, 5]] == 0).all() and (memory.up[6:] == given - np.float32(most)).all()


@each_memory
@pytest.mark.parametrize(
    "wrong, error, words",
    [
        ({"step": -1}, ValueError, "step=-1 must be at least 0"),
        ({"step": 2.5}, ValueError, "step=2.5 must be a whole number"),
        ({"last": np.zeros(1, "f4")}, ValueError, r"has shape \(1,\), expected \(100,\)"),
        ({"last": [0.0] * 100}, ValueError, "a list for .*, where state_dict gave an array"),
        ({"last": np.zeros(100, complex)}, ValueError, "complex128 numbers for .*, expected float32"),
        ({"last": np.zeros(100, object)}, ValueError, "object numbers"),
        ({"other": np.zeros(100)}, ValueError, r"it has \[.*'other'.*\], expected \[.*'step'.*\]"),
        (None, TypeError, "the dict that state_dict gave, not None"),
        ([], TypeError, "the dict that state_dict gave, not a list"),
    ],
)
def test_a_wrong_state_is_refused_and_changes_nothing(make, wrong, error, words):
    memory = make(100, "f32")
    last = [name for name, _ in memory.arrays()][-1]
    state = {name: array + 1 for name, array in memory.state_dict().items()}
    if isinstance(wrong, dict):
        wrong = {**state, **{last if name == "last" else name: value for name, value in wrong.items()}}
    with pytest.raises(error, match=words):
        memory.load_state_dict(wrong)
    assert memory.step == 0 and not any(array.any() for _, array in memory.arrays())
    memory.load_state_dict({name: np.asarray(value) for name, value in state.items()})  # as np.load gives it
    assert memory.step == 1 and all((array == 1).all() for _, array in memory.arrays())


@each_memory
def test_a_state_can_be_saved_restored_and_reset(make):
    xs = [normal(1000, seed=rank) for rank in range(3)]
    (first, second, _), memories = calls(lambda call: xs, "topk:ratio=0.1", make, 3)
    fresh = [make(1000, "f32") for _ in xs]
    assert simulation.allreduce(xs, codec="topk:ratio=0.1", memories=fresh).arrays[0].tobytes() == first.tobytes()
    saved = [memory.state_dict() for memory in fresh]
    outs = [simulation.allreduce(xs, codec="topk:ratio=0.1", call=1, memories=fresh).arrays[0] for _ in range(2)]
    assert outs[0].tobytes() == second.tobytes() != outs[1].tobytes()
    for memory, state in zip(fresh, saved):
        memory.load_state_dict(state)
    assert (
        simulation.allreduce(xs, codec="topk:ratio=0.1", call=1, memories=fresh).arrays[0].tobytes() == second.tobytes()
    )
    for memory in fresh:
        memory.reset()
    assert simulation.allreduce(xs, codec="topk:ratio=0.1", memories=fresh).arrays[0].tobytes() == first.tobytes()
    with pytest.raises(ValueError, match="another collective"):
        memories[0].load_state_dict(make(999, "f32").state_dict())


@each_memory
def test_many_arrays_remember_each_their_own(make):
    memory = remember(mpicomp.codec("sign"), make.name, Fused([arrays.flatten(normal(n)) for n in (100, 70)], 64))
    assert {array.size for name, array in memory.arrays() if name.startswith("0")} == {100}
    assert set(memory.state_dict()) == {"step", *(f"{k} {name}" for k in (0, 1) for name, _ in make(1, "f32").arrays())}


def test_plans_with_feedback_are_never_mpis_own():
    chosen = settings.make("topk", "auto").override(feedback=True)
    plan = planning.choose(chosen, 100, "f32", 4)
    assert plan.algorithm == "direct" and str(plan.settings.codec) == "raw"
    assert planning.choose(chosen, 1 << 20, "f32", 4).settings.codec == mpicomp.codec("topk")
    ef21 = chosen.override(feedback="ef21")
    assert planning.choose(ef21, 1 << 20, "f32", 4).algorithm == "direct"
    with pytest.raises(SettingError, match="direct"):
        planning.choose(ef21.override(algorithm="ring"), 1 << 20, "f32", 4)
    with pytest.raises(SettingError, match="'ef21'"):
        chosen.override(feedback="ef22")
