"""Natural compression rounds without bias: counted over every random number where that is possible."""

from __future__ import annotations

import numpy as np
import pytest

from mpicomp import launch
from mpicomp.reference.natural import (
    EIGHT,
    NINE,
    SIX,
    TWELVE,
    code_f16,
    code_f32,
    code_f64,
    level,
    value_f16,
    value_f32,
    value_f64,
)
from mpicomp.reference.rng import stream_key

FORMATS = {
    ("natural", "f32"): NINE,
    ("natural", "f64"): TWELVE,
    ("natural", "f16"): SIX,
    ("natural8", "f32"): EIGHT,
}
STORED = {"f32": np.float32, "f64": np.float64, "f16": np.float16}
each_format = pytest.mark.parametrize("codec, kind", FORMATS)


def through(codec, kind, x, key=1, offset=0, nearest=0):
    """decode(encode(x)) by the kernels."""
    wire, out = np.empty(FORMATS[codec, kind].size(x.size), np.uint8), np.empty_like(x)
    launch.kernel(f"{codec}_encode_{kind}")(x, x.size, wire, key, 0, offset, nearest)
    launch.kernel(f"{codec}_decode_{kind}")(wire, x.size, out)
    return out


def test_float16_is_exactly_unbiased_over_all_its_random_numbers():
    """A float16 has 10 bits of mantissa, so 10 random bits decide: all 1024 are tried."""
    halves = np.arange(0, 0x7800, dtype=np.uint16)  # below 32768, above which nothing rounds up
    halves = halves[(halves % 16 < 2) | (halves < 1024) & (halves % 3 == 0)]
    x = halves.view(np.float16).astype(np.float32)
    mean = np.zeros(x.size)
    for r in range(1024):
        mean += value_f16(code_f16(x, np.full(x.size, r << 22, np.uint32)))
    assert np.array_equal(mean / 1024, x.astype(np.float64))


@pytest.mark.parametrize("mantissa", [0, 1, 0x2AAAAB, 0x400000, 0x7FFFFF])
@pytest.mark.parametrize("exponent", [0, 1, 127])
def test_float32_goes_up_for_exactly_its_share_of_the_random_numbers(mantissa, exponent):
    x = np.array([exponent << 23 | mantissa], np.uint32).view(np.float32)
    first_up = (1 << 23) - mantissa  # the smallest of the 2^23 random numbers that carries
    r = np.arange(max(first_up - 500, 0), min(first_up + 500, 1 << 23), dtype=np.uint32) << np.uint32(9)
    got = code_f32(np.repeat(x, r.size), r)
    assert np.array_equal(got, exponent + (r >> np.uint32(9) >= first_up))
    ends = code_f32(np.repeat(x, 2), np.array([0, 0xFFFFFFFF], np.uint32)).tolist()
    assert ends == [exponent, exponent + (mantissa > 0)]


@pytest.mark.parametrize("mantissa", [0, 1, 0x5555555555555, (1 << 52) - 1])
def test_float64_goes_up_for_exactly_its_share_of_the_random_numbers(mantissa):
    x = np.array([1023 << 52 | mantissa], np.uint64).view(np.float64)
    first_up = (1 << 52) - mantissa
    for r in (0, first_up - 1, first_up, (1 << 52) - 1):
        if 0 <= r < 1 << 52:
            code = code_f64(x, np.array([r << 12], np.uint64))
            assert code[0] == 1023 + (r >= first_up)


@pytest.mark.parametrize("s, below", [(1, 0), *((s, b) for s in (50, 128) for b in (0, 1, 5, 8, 9, 31, 40))])
def test_below_the_lowest_level_32_bits_of_the_value_decide(s, below):
    """P(up) is the value in units of the lowest level, cut off (not rounded) at 2^-32."""
    u = np.array([s - below << 23 | 0x5ABCDE], np.int64)
    share = (0x5ABCDE | 1 << 23) << 9 >> below + 1
    r = np.array([max(2**32 - share - 1, 0), min(2**32 - share, 2**32 - 1), 2**32 - 1], np.uint32)
    want = [0, int(share > 0), int(share > 0)]
    assert level(np.repeat(u, 3), r, s).tolist() == want


@each_format
@pytest.mark.parametrize("value", [4 / 3, 1.0009765625, 1.9990234375, -2.5, 3.0])
def test_the_mean_is_the_value_within_four_standard_errors(codec, kind, value):
    n = 200_000
    x = np.full(n, value, STORED[kind])
    got = through(codec, kind, x, key=stream_key(3)).astype(np.float64)
    exact = float(x[0])
    low = 2.0 ** np.floor(np.log2(abs(exact)))
    assert set(np.abs(got)) <= {low, 2 * low}
    variance = (abs(exact) - low) * (2 * low - abs(exact))
    assert abs(got.mean() - exact) < 4 * np.sqrt(variance / n)
    assert abs((got**2).mean() - exact**2 - variance) < 4 * 3 * low**2 / 2 / np.sqrt(n)
    assert variance <= exact**2 / 8 * (1 + 1e-6)


@each_format
def test_a_vector_of_many_scales_keeps_its_mean(codec, kind):
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(512) * np.exp(rng.uniform(-8, 3, 512))).astype(STORED[kind])
    rounds = 400
    total = sum(through(codec, kind, x, key=stream_key(9, call)).astype(np.float64) for call in range(rounds))
    exact = x.astype(np.float64)
    low = np.maximum(2.0 ** np.floor(np.log2(np.abs(exact))), 2.0**-14 if kind == "f16" else 0)
    low = np.where(np.abs(exact) < low, 0, low)
    high = np.where(low > 0, 2 * low, 2.0**-14)
    error = np.sqrt((np.abs(exact) - low) * (high - np.abs(exact)) / rounds)
    z = (total / rounds - exact) / np.maximum(error, 1e-300)
    assert np.abs(z[error > 0]).max() < 5
    assert abs(np.mean(z[error > 0] ** 2) - 1) < 5 * np.sqrt(2 / 512)
    assert np.array_equal((total / rounds)[error == 0], exact[error == 0])


@each_format
def test_nearest_goes_to_the_nearer_power_and_up_from_the_middle(codec, kind):
    x = np.array([1, 1.25, 1.49, 1.5, 1.75, -3.5, -2.9, 0], STORED[kind])
    assert through(codec, kind, x, nearest=1, offset=12345).tolist() == [1, 1, 1, 2, 2, -4, -2, 0]


@each_format
def test_nan_inf_zero_and_the_largest_number_stay_what_they_are(codec, kind):
    largest = np.finfo(STORED[kind]).max
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, largest, -largest] * 40, STORED[kind])
    for nearest in (0, 1):
        got = through(codec, kind, x, nearest=nearest)
        assert np.array_equal(np.isnan(got), np.isnan(x))
        assert np.array_equal(got[np.isinf(x)], x[np.isinf(x)])
        assert np.isfinite(got[np.isfinite(x)]).all()
        assert not np.signbit(got[x == 0]).any()
        assert np.array_equal(np.sign(got[np.isfinite(x)]), np.sign(x[np.isfinite(x)]))


@each_format
def test_powers_of_two_are_exact(codec, kind):
    low = -14 if kind == "f16" else -100
    powers = (2.0 ** np.arange(low, 15)).astype(STORED[kind])
    both = np.concatenate([powers, -powers])
    assert np.array_equal(through(codec, kind, both, key=5), both)


@each_format
def test_offsets_spread_over_the_ranks_cancel_their_errors(codec, kind):
    """With r, r + 1/8, ..., r + 7/8, exactly the right number of 8 ranks rounds up: the mean has no error at all."""
    x = np.full(1000, 1.25, STORED[kind])
    total = sum(through(codec, kind, x, key=2, offset=(rank << 32) // 8).astype(np.float64) for rank in range(8))
    assert np.array_equal(total / 8, x.astype(np.float64))


@pytest.mark.parametrize("value, codes", [(value_f32, 512), (value_f16, 64), (value_f64, 4096)])
def test_every_code_has_a_value_that_has_that_code(value, codes):
    every = np.arange(codes, dtype=np.uint16)
    values = value(every)
    code = {value_f32: code_f32, value_f16: code_f16, value_f64: code_f64}[value]
    random = np.full(codes, 12345, np.uint64 if value is value_f64 else np.uint32)
    assert np.array_equal(code(values, random), every)
    assert np.isnan(values).sum() == 1
