"""Every Allreduce algorithm on virtual ranks: the same schedules, engine and codecs as on MPI, without mpirun."""

from __future__ import annotations

import numpy as np
import pytest
from common import DTYPES, bits, normal, relative_error, use_level

import mpicomp
from mpicomp import launch, planning, settings
from mpicomp.engine import Run
from mpicomp.errors import RemoteError
from mpicomp.job import Randomness, Reduction
from mpicomp.schedules import ALLREDUCE
from mpicomp.simulation import Costs, Network, Simulation, allreduce

RANKS = [1, 2, 3, 4, 5, 7, 8, 13, 33]  # hundreds: test_schedules.py
each_algorithm = pytest.mark.parametrize("algorithm", ALLREDUCE)


def whole_numbers(n, p, kind="f32", seed=0):
    """Arrays whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-3, 4, n).astype(DTYPES[kind]) for _ in range(p)]


def total(xs):
    return np.sum([x.astype(np.float64) for x in xs], axis=0)


# The result


@each_algorithm
@pytest.mark.parametrize("p", RANKS)
def test_any_number_of_ranks_gets_the_exact_sum_of_whole_numbers_with_raw(algorithm, p):
    for n in (0, 1, p - 1, 63, 64, 64 * p + 1):
        xs = whole_numbers(n, p)
        for y in allreduce(xs, codec="raw", algorithm=algorithm, segment=1024).arrays:
            assert (y == total(xs)).all()


@each_algorithm
@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("codec", ["natural", "natural:bits=8"])
def test_every_rank_gets_the_same_bits(algorithm, p, codec):
    for n in (1, p - 1, 65, 1537):
        xs = [normal(n, seed=r) for r in range(p)]
        ys = allreduce(xs, codec=codec, algorithm=algorithm, segment=4096).arrays
        assert all((bits(y) == bits(ys[0])).all() for y in ys)


@each_algorithm
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("codec", ["natural", "raw"])
def test_every_kind_of_number_is_summed_within_the_error_that_plan_states(algorithm, kind, codec):
    xs = [normal(20_000, kind, seed=r) for r in range(5)]
    ys = allreduce(xs, codec=codec, algorithm=algorithm).arrays
    plan = planning.choose(settings.make(codec, algorithm), 20_000, kind, 5)
    rounding = {"f32": 1e-6, "f64": 1e-14, "f16": 1e-3, "bf16": 1e-2}[kind]
    assert relative_error(ys[0], total(xs)) <= plan.expected_error + rounding
    assert all((bits(y) == bits(ys[0])).all() for y in ys)


@each_algorithm
def test_powers_of_two_from_one_rank_arrive_as_they_are(algorithm):
    x = np.ldexp(1.0, np.arange(-120, 120)).astype(np.float32)
    xs = [np.zeros_like(x), x, np.zeros_like(x)]
    for y in allreduce(xs, codec="natural", algorithm=algorithm).arrays:
        assert (y == x).all()


@each_algorithm
def test_a_mean_is_the_sum_over_the_number_of_ranks(algorithm):
    xs = whole_numbers(500, 4)
    for y in allreduce(xs, op="mean", codec="raw", algorithm=algorithm).arrays:
        assert (y == total(xs) / 4).all()


@each_algorithm
@pytest.mark.parametrize("codec", ["natural", "natural:bits=8", "bf16", "raw"])
def test_nan_and_inf_of_one_rank_reach_every_rank(algorithm, codec):
    xs = [normal(1000, seed=r) for r in range(4)]
    xs[1][5], xs[2][70], xs[3][999] = np.nan, np.inf, -np.inf
    xs[0][600], xs[1][600] = np.inf, -np.inf
    for y in allreduce(xs, codec=codec, algorithm=algorithm).arrays:
        assert np.isnan(y[[5, 600]]).all()
        assert not np.isfinite(y[[70, 999]]).any()
        assert y[70] != -np.inf and y[999] != np.inf


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_16_bit_numbers_are_accumulated_in_float32(kind):
    """2048 + 1 + ... + 1: in float16 and bfloat16 the ones would vanish one by one."""
    xs = [np.full(100, 2048 if r == 0 else 1, DTYPES[kind]) for r in range(65)]
    for y in allreduce(xs, codec="raw").arrays:
        assert (y.astype(np.float32) == np.float32(2112)).all()


# The same bits again


@each_algorithm
@pytest.mark.parametrize("codec", ["natural", "natural:bits=8"])
def test_segments_do_not_change_the_bits(algorithm, codec):
    xs = [normal(30_011, seed=r) for r in range(3)]
    first = allreduce(xs, codec=codec, algorithm=algorithm).arrays[0]
    for segment in (1, 5000, 1 << 16, 1 << 24):
        assert (bits(allreduce(xs, codec=codec, algorithm=algorithm, segment=segment).arrays[0]) == bits(first)).all()


def test_threads_do_not_change_the_bits(monkeypatch):
    xs = [normal(2_500_003, seed=r) for r in range(2)]
    first = allreduce(xs, codec="natural", segment=1 << 30).arrays[0]
    monkeypatch.setenv("MPICOMP_NUM_THREADS", "3")
    assert (bits(allreduce(xs, codec="natural", segment=1 << 30).arrays[0]) == bits(first)).all()


@pytest.mark.parametrize("level", ["v1", "v3", "v4", "reference"])
@pytest.mark.parametrize("kind", DTYPES)
def test_the_type_of_processor_does_not_change_the_bits(monkeypatch, level, kind):
    xs = [normal(3000, kind, seed=r) for r in range(3)]
    first = allreduce(xs, codec="natural").arrays[0]
    use_level(monkeypatch, level)
    try:
        launch.kernel("natural_encode_f32")
    except ValueError:
        pytest.skip("this processor has no such level")
    assert (bits(allreduce(xs, codec="natural").arrays[0]) == bits(first)).all()


@each_algorithm
def test_seed_and_call_decide_about_the_bits(algorithm):
    xs = [normal(1000, seed=r) for r in range(3)]

    def result(**given):
        return bits(allreduce(xs, codec="natural", algorithm=algorithm, **given).arrays[0])

    assert (result(seed=1, call=2) == result(seed=1, call=2)).all()
    assert (result(seed=1, call=2) != result(seed=1, call=3)).any()
    assert (result(seed=1, call=2) != result(seed=2, call=2)).any()


# Right on average


@each_algorithm
@pytest.mark.parametrize(
    "codec, kind",
    [("natural", "f32"), ("natural:bits=8", "f32"), ("natural:correlated=true", "f32"), ("natural", "f64")],
)
def test_the_whole_allreduce_is_right_on_average(algorithm, codec, kind):
    """The same 192 values 100 times over, in 10 calls, all with random numbers of their own: the mean of each sum lies within
    5.5 standard errors (the worst of 192 values: about 1 in 10^5)."""
    xs = [np.tile(np.linspace(0.3, 1.7, 192).astype(DTYPES[kind]) * (r + 1), 100) for r in range(3)]
    ys = [allreduce(xs, codec=codec, algorithm=algorithm, call=c).arrays[0] for c in range(10)]
    ys = np.concatenate(ys).reshape(1000, 192).astype(np.float64)
    deviation = ys.std(axis=0) / np.sqrt(len(ys))
    assert (np.abs(ys.mean(axis=0) - total(xs)[:192]) <= 5.5 * deviation).all()


def test_correlated_rounding_makes_the_error_of_like_arrays_smaller():
    xs = [normal(5000, seed=1) for _ in range(8)]
    independent = relative_error(allreduce(xs, codec=("natural", "raw")).arrays[0], total(xs))
    correlated = relative_error(allreduce(xs, codec=("natural:correlated=true", "raw")).arrays[0], total(xs))
    assert correlated < 0.6 * independent


def test_up_and_down_link_may_have_codecs_of_their_own():
    xs = [normal(3001, seed=r) for r in range(3)]
    both = relative_error(allreduce(xs, codec="natural").arrays[0], total(xs))
    up = relative_error(allreduce(xs, codec=("natural", "raw")).arrays[0], total(xs))
    none = relative_error(allreduce(xs, codec=("raw", "raw")).arrays[0], total(xs))
    assert none < 1e-6 < up < both


# Messages and the clock


def test_direct_sends_what_plan_says():
    xs = [normal(100_000, seed=r) for r in range(4)]
    result = allreduce(xs, codec="natural", algorithm="direct")
    plan = planning.choose(settings.make("natural", "direct"), 100_000, "f32", 4)
    assert max(result.bytes_sent) == pytest.approx(plan.wire_bytes, rel=0.01)


def test_the_clock_counts_bandwidth_latency_and_work():
    xs = [normal(1 << 20, seed=r) for r in range(4)]
    ideal = 2 * 3 / 4 * mpicomp.codec("natural").wire_size(1 << 20) / 1.25e8
    links = allreduce(xs, codec="natural", segment=1 << 17, network=Network(latency=1e-6, bandwidth=1.25e8)).seconds
    assert ideal < links < 1.1 * ideal
    slow = allreduce(xs, codec="natural", network=Network(latency=0.5, bandwidth=1.25e8)).seconds
    assert slow >= 1.0
    costly = allreduce(xs, codec="natural", network=Network(bandwidth=1e15), costs=Costs(encode=4e6)).seconds
    assert costly == pytest.approx(0.75 * (4 << 20) / 4e6, rel=0.1)


def test_a_dead_rank_is_noticed():
    simulation = Simulation(3)
    simulation.failed.add(1)
    with pytest.raises(RemoteError, match=r"no message ever came from ranks \[1\]"):
        simulation.run(lambda port: _begin(port, normal(500, seed=port.rank)))


def test_an_error_in_what_finishes_a_run_is_raised_as_it_is_and_once():
    errors = []

    def finish(error):
        errors.append(error)
        raise ValueError("at the end")

    with pytest.raises(ValueError, match="at the end"):
        Simulation(1).run(lambda port: Run(port, (), finish=finish))
    assert errors == [None]


def test_ranks_that_send_other_lengths_are_noticed():
    with pytest.raises(RemoteError, match="bytes"):
        Simulation(2).run(lambda port: _begin(port, normal(100 + 200 * port.rank)))


def _begin(port, x):
    from mpicomp.arrays import Flat

    chosen = settings.make("natural", "direct")
    flat = Flat(x, "f32")
    job = Reduction(chosen.codec, chosen.down, flat, flat, 1.0, Randomness(0, 0, port.rank, port.size), port.pool)
    return Run(port, planning.choose(chosen, x.size, "f32", port.size).lanes(port, job, port.tag()))


# Mistakes


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"codec": "naturl"}, "did you mean 'natural'"),
        ({"algorithm": "dirct"}, "no algorithm named 'dirct'"),
        ({"codec": ("natural", "raw", "raw")}, "a pair"),
        ({"segment": 0}, "segment=0 must be at least 1"),
        ({"seed": "x"}, "seed='x' must be a whole number"),
    ],
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        allreduce([np.zeros(3, np.float32)] * 2, **arguments)


def test_codecs_that_cannot_carry_the_data_are_refused():
    with pytest.raises(mpicomp.CodecError, match="cannot carry float64"):
        allreduce([np.zeros(100)] * 2, codec="natural:bits=8")
