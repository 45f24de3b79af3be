"""Dithering: every level of the C kernels is the reference, the levels are unbiased, the error is what is promised."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from common import DTYPES, bits, normal, relative_error
from test_kernels import KEY, STORED, same_numbers, special, typical

import mpicomp
from mpicomp import reference
from mpicomp.reference.dithering import Dithered
from mpicomp.simulation import allreduce

# bits, p (0 is inf), block, flags: natural levels, natural norm
SETTINGS = [(4, 2, 512, 1), (8, 0, 128, 0), (2, 0, 64, 0), (3, 1, 64, 3), (5, 2, 192, 2), (7, 1, 512, 0), (6, 0, 64, 1)]
each_setting = pytest.mark.parametrize("tail", SETTINGS, ids=str)
each_kind = pytest.mark.parametrize("kind", STORED)


def encoded(kernel, kind, x, tail, first=0, offset=0, nearest=0, room=None):
    wire = np.full(Dithered(kind, *tail).size(x.size), 0xEE, np.uint8) if room is None else room
    kernel(f"dithering_encode_{kind}")(x, x.size, wire, KEY, first, offset, nearest, *tail)
    return wire


def decoded(kernel, kind, wire, n, tail):
    out = np.full(n + 2, 77, STORED[kind])
    kernel(f"dithering_decode_{kind}")(wire, n, out[1:-1], *tail)
    assert out[0] == out[-1] == 77
    return out[1:-1]


# The kernels are the reference


@each_setting
@each_kind
def test_every_length_is_the_reference_and_stays_in_bounds(compiled, kind, tail):
    block = tail[2]
    for n in [*range(0, 201, 1 if kind == "f32" else 7), block - 1, block, block + 1, 2 * block, 3 * block + 65, 5000]:
        x, size = typical(kind, n, n), Dithered(kind, *tail).size(n)
        room = np.full(size + 3, 0xEE, np.uint8)  # an odd address, and a guard on each side
        wire = encoded(compiled, kind, x, tail, offset=7, room=room[1:-2])
        assert room[0] == room[-1] == room[-2] == 0xEE
        assert np.array_equal(wire, encoded(reference.find, kind, x, tail, offset=7))
        got, want = (decoded(kernel, kind, wire, n, tail) for kernel in (compiled, reference.find))
        assert np.array_equal(bits(got), bits(want))


@each_setting
@each_kind
@pytest.mark.parametrize("nearest", [0, 1])
def test_every_kind_of_value_is_the_reference(compiled, kind, tail, nearest):
    """All exponents, sorted (blocks of like values, the largest and smallest norms) and mixed (blocks with a NaN)."""
    x = special(kind)
    for each in (np.sort(x), x[np.random.default_rng(1).permutation(x.size)][:20_000]):
        arguments = {"first": 1 << 40, "offset": 0x9ABCDEF0, "nearest": nearest}
        want = encoded(reference.find, kind, each, tail, **arguments)
        assert np.array_equal(encoded(compiled, kind, each, tail, **arguments), want)
        got, want = (decoded(kernel, kind, want, each.size, tail) for kernel in (compiled, reference.find))
        assert np.array_equal(bits(got), bits(want))


@each_setting
@each_kind
def test_any_bytes_decode_as_by_the_reference(compiled, kind, tail):
    n = 10_001
    for seed in range(3):
        wire = np.random.default_rng(seed).integers(0, 256, Dithered(kind, *tail).size(n)).astype(np.uint8)
        got, want = (decoded(kernel, kind, wire, n, tail) for kernel in (compiled, reference.find))
        assert np.array_equal(bits(got), bits(want))


@each_setting
@each_kind
@pytest.mark.parametrize("n", [0, 1, 64, 700])
def test_add_is_the_reference(compiled, kind, tail, n):
    wire = encoded(reference.find, kind, typical(kind, n, 1), tail)
    start = np.random.default_rng(3).standard_normal(n).astype(np.float64 if kind == "f64" else np.float32)
    got, want = start.copy(), start.copy()
    compiled(f"dithering_add_{kind}")(wire, n, got, 0.3, *tail)
    reference.find(f"dithering_add_{kind}")(wire, n, want, 0.3, *tail)
    assert same_numbers(got, want)


@each_setting
@each_kind
@pytest.mark.parametrize("p, position", [(0, 0), (1, 1), (3, 1), (2, None)])
def test_reduce_is_the_reference(compiled, kind, tail, p, position):
    for n, block in itertools.product((1, 130, 1000), (tail[2], 8192)):
        settings = (*tail[:2], block, tail[3])
        own = None if position is None else typical(kind, n, 50)
        wires = [encoded(reference.find, kind, typical(kind, n, k), settings) for k in range(p)]
        outs = [np.full(Dithered(kind, *settings).size(n), 0xEE, np.uint8) for _ in range(2)]
        for kernel, out in zip((compiled, reference.find), outs):
            arguments = (wires, p, position or 0, own, n, 1 / 3, out, KEY, 8192, 7, 0)
            kernel(f"dithering_reduce_{kind}")(*arguments, *settings)
        assert np.array_equal(*outs)


@each_kind
def test_blocks_longer_than_a_cache_are_the_reference(compiled, kind):
    tail, n = (4, 2, 16384, 1), 20_001
    x, wires = typical(kind, n, 0), [encoded(reference.find, kind, typical(kind, n, k), tail) for k in (1, 2)]
    assert np.array_equal(encoded(compiled, kind, x, tail), encoded(reference.find, kind, x, tail))
    outs = [np.empty_like(wires[0]) for _ in range(2)]
    for kernel, out in zip((compiled, reference.find), outs):
        kernel(f"dithering_reduce_{kind}")(wires, 2, 1, x, n, 1.0, out, KEY, 0, 0, 0, *tail)
    assert np.array_equal(*outs)


@each_setting
def test_a_wire_may_be_cut_at_any_block(compiled, tail):
    x, block = typical("f32", 5000, 9), tail[2]
    cuts = [0, block, 4 * block, 7 * block, x.size]
    parts = [encoded(compiled, "f32", x[lo:hi], tail, first=lo) for lo, hi in zip(cuts, cuts[1:])]
    assert np.array_equal(encoded(compiled, "f32", x, tail), np.concatenate(parts))


# Unbiased


@pytest.mark.parametrize("value", [0.0, 1e-12, 0.3, 1.0, 2.5, 7 - 1e-9, 7.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_standard_levels_go_up_for_their_share_of_the_random_numbers(value, sign):
    t = np.array([sign * value])
    low, share = np.floor(t[0]), round((t[0] - np.floor(t[0])) * 2**32)
    for r in (0, share - 1, share, 2**32 - 1):
        if 0 <= r < 2**32:
            assert Dithered("f64", 4, 2, 64, 0).standard_level(t, np.array([r], np.uint32))[0] == low + (r < share)


@pytest.mark.parametrize("width", range(2, 9))
@pytest.mark.parametrize("part", [0.0, 1e-12, 1e-7, 0.3, 0.5, 1 - 1e-6, 1.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_standard_levels_of_floats_have_nearly_30_bits_of_the_norm(width, part, sign):
    """The highest random numbers go up; their share is right to 2^-29 of the norm."""
    codec, one = Dithered("f32", width, 2, 64, 0), 2 ** (31 - width)
    y = np.float32([sign * part * codec.top * one])
    low, share = divmod(int(y[0]), one)
    assert abs((low + share / one) / codec.top - float(y[0]) / one / codec.top) <= 2.0**-29
    first = 2**32 - (share << width + 1)
    for r in (0, first - 1, first, 2**32 - 1):
        if 0 <= r < 2**32:
            assert codec.standard_level(y, np.array([r], np.uint32))[0] == low + (r >= first)


NATURAL = [(0.3, 0, 1), (1e-20, 0, 1), (1, 1, 2), (1.25, 1, 2), (3, 2, 3), (64, 7, 7)]


@pytest.mark.parametrize("y, low, high", NATURAL)
def test_natural_levels_go_up_for_their_share_of_the_random_numbers(y, low, high):
    """y in units of the lowest level: 0, 1, 2, 4, ..., 64 are the levels 0, 1, 2, 3, ..., 7 of 4 bits."""
    values = [0.0, *2.0 ** np.arange(7)]
    gap = values[high] - values[low] or 1
    share = int((y - values[low]) / gap * 2**32)
    for r in (0, share - 1, share, 2**32 - 1):
        if 0 <= r < 2**32:
            level = Dithered("f64", 4, 2, 64, 1).natural_level(np.array([float(y)]), np.array([r], np.uint32))[0]
            assert level == (high if r < share else low)


@pytest.mark.parametrize("y, low, high", NATURAL)
def test_natural_levels_of_floats_have_23_bits_of_their_distance(y, low, high):
    """The highest random numbers go up. The lowest level is 2^58, and the highest 2^64."""
    values = [0.0, *2.0 ** np.arange(7)]
    gap = values[high] - values[low] or 1
    share = round((float(np.float32(y)) - values[low]) / gap * 2**23)
    first = 2**32 - (share << 9)
    for r in (0, first - 1, first, 2**32 - 1):
        if 0 <= r < 2**32:
            level = Dithered("f32", 4, 2, 64, 1).natural_level(np.float32([y * 2.0**58]), np.array([r], np.uint32))[0]
            assert level == (high if r >= first else low)


def grid(codec):
    """The levels of a codec."""
    count = codec.levels
    return np.array([0, *2.0 ** np.arange(1 - count, 1)]) if codec.natural_levels else np.arange(count + 1) / count


def variances(x, levels, p):
    """The variance of each dithered value, by the definition, for x as one block."""
    a = np.abs(x.astype(np.float64))
    norm = {1: a.sum(), 2: np.sqrt((a**2).sum()), "inf": a.max()}[p]
    above = np.clip(np.searchsorted(levels, a / norm, side="right"), 1, len(levels) - 1)
    return (norm * levels[above] - a) * (a - norm * levels[above - 1])


STATISTICS = [
    "natural-dithering",
    "natural-dithering:bits=3,p=inf",
    "natural-dithering:bits=2,p=1",
    "natural-dithering:bits=8",
    "dithering",
    "dithering:bits=8,p=inf",
    "dithering:bits=3,p=1",
    "qsgd:bits=6",
    "terngrad",
]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(
    "spec", [*STATISTICS, "dithering:bits=7,norm=natural", "natural-dithering:bits=3,norm=natural"]
)
def test_short_floats_keep_their_mean(spec, kind):
    codec, rounds, x = mpicomp.codec(spec), 1000, normal(512, kind, seed=4)
    many = np.tile(x, rounds)
    error = codec.decode(codec.encode(many, seed=6), like=many).astype(np.float64).reshape(rounds, -1)
    error -= x.astype(np.float64)
    along = (error * x.astype(np.float64)).sum(axis=1)
    assert abs(along.mean()) < 4 * along.std() / np.sqrt(rounds)
    unlikely = np.log(2 * 512 / 1e-6)
    slack = np.abs(error).max() * unlikely / 3 / rounds
    assert (np.abs(error.mean(axis=0)) <= np.sqrt(2 * unlikely / rounds) * error.std(axis=0) + slack).all()
    assert (error**2).sum(axis=1).mean() <= codec.omega(512) * (x.astype(np.float64) ** 2).sum()


@pytest.mark.parametrize("spec", ["qsgd:bits=8,block=65536", "dithering:bits=7,block=65536", "qsgd:block=65536"])
@pytest.mark.parametrize("kind, more", [("f32", -30), ("f16", -11), ("bf16", -8)])
def test_short_floats_have_larger_steps_where_blocks_are_large(spec, kind, more):
    """65536 equal values, rounded 8 times: within 1 % of omega, with steps as much larger as the document says."""
    codec, x = mpicomp.codec(spec), np.full(65536, 1.01, DTYPES[kind])
    error = np.mean([relative_error(codec.decode(codec.encode(x, seed=k), like=x), x) ** 2 for k in range(8)])
    assert error <= 1.01 * (1 + 2.0 ** (codec.bits + more)) * codec.omega(x.size)


@pytest.mark.parametrize("spec", STATISTICS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_the_mean_is_the_value_and_the_variance_what_the_levels_say(spec, kind):
    """512 values as 1000 equal blocks: each within Bernstein's bound (one in a million), all together within 4 errors."""
    codec, rounds = mpicomp.codec(spec), 1000
    x = (normal(512, kind, seed=4) * np.exp(np.random.default_rng(5).uniform(-4, 1, 512))).astype(DTYPES[kind])
    x[7] = 0
    many = np.tile(x, rounds)
    error = codec.decode(codec.encode(many, seed=6), like=many).astype(np.float64).reshape(rounds, -1) - x
    variance = variances(x, grid(codec), codec.p)
    deviation = np.sqrt(np.maximum(variance, 0) / rounds)
    mean, unlikely = error.mean(axis=0), np.log(2 * 512 / 1e-6)
    most = np.abs(error).max()
    assert (np.abs(mean) <= np.sqrt(2 * unlikely) * deviation + most * unlikely / 3 / rounds + 1e-6 * np.abs(x)).all()
    along = (mean * x).sum() / np.sqrt((deviation**2 * x.astype(np.float64) ** 2).sum())
    assert abs(along) < 4
    each = (error**2).sum(axis=1)
    assert abs(each.mean() - variance.sum()) < 4 * each.std() / np.sqrt(rounds)
    assert variance.sum() <= codec.omega(512) * (x.astype(np.float64) ** 2).sum()


@pytest.mark.parametrize(
    "spec", ["terngrad", "dithering:bits=8,p=inf", "natural-dithering:bits=2,p=inf", "natural-dithering:bits=4,p=inf"]
)
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("chance", [1e-3, 1e-5, 1e-6])
def test_values_far_below_the_norm_are_drawn_as_often_as_they_should(spec, kind, chance):
    """4 million values of +- a part of the lowest level: how many are not 0, of each sign, within 5 deviations."""
    codec, n = mpicomp.codec(spec), 1 << 22
    x = np.tile((chance * grid(codec)[1] * np.array([1, -1])).astype(DTYPES[kind]), n // 2)
    x[::512] = 1
    y = codec.decode(codec.encode(x, seed=3), like=x).reshape(-1, 512)[:, 1:]
    lowest = y.ravel()[np.argmax(y > 0)]  # which may be rounded up
    want = float(x[2]) / float(lowest) * y.size / 2
    up, down = np.count_nonzero(y == lowest), np.count_nonzero(y == -lowest)
    assert abs(up - want) < 5 * np.sqrt(want) + 1 and abs(down - want) < 5 * np.sqrt(want) + 1
    assert up + down == np.count_nonzero(y)


@pytest.mark.parametrize("spec", STATISTICS)
@pytest.mark.parametrize("scale", [2.0**-149, 2.0**-140, 2.0**-120, 2.0**-64])
def test_blocks_of_subnormal_numbers_keep_their_mean(spec, scale):
    """Within Bernstein's bound (one in a million), and a rounding of what natural levels decode to."""
    codec, rounds = mpicomp.codec(spec), 1000
    x = (np.random.default_rng(3).integers(-300, 300, 512) * scale).astype(np.float32)
    x[0] = 4000 * scale  # so that no step that was rounded up reaches beyond the norm
    many = np.tile(x, rounds)
    got = codec.decode(codec.encode(many, seed=6), like=many).astype(np.float64).reshape(rounds, -1)
    error = (got - x) / scale
    unlikely = np.log(2 * 512 / 1e-6)
    bound = np.sqrt(2 * unlikely / rounds) * error.std(axis=0) + np.abs(error).max() * unlikely / 3 / rounds
    assert (np.abs(error.mean(axis=0)) <= bound + 2.0**-150 / scale).all() and got.any()


def test_the_published_errors_are_those_of_the_levels():
    """Gaussian data, p=2: error of natural with s levels, of standard with s, and with 2^(s-1) levels."""
    table = [(1000, 4, 2.14, 5.22, 2.14), (1000, 8, 0.082, 2.13, 0.0102)]
    table += [(100_000, 8, 0.993, 30.7, 0.993), (100_000, 12, 0.082, 20.2, 0.004)]
    for d, s, natural, same, many in table:
        x = normal(d, "f64", seed=1)
        levels = [np.array([0, *2.0 ** np.arange(1 - s, 1)]), np.arange(s + 1) / s]
        levels.append(np.arange(2 ** (s - 1) + 1) / 2 ** (s - 1))
        got = [variances(x, each, 2).sum() / (x**2).sum() for each in levels]
        assert got == pytest.approx([natural, same, many], rel=0.06)


@pytest.mark.parametrize("d, block", [(1000, 1024), (100_000, 1 << 17)])
@pytest.mark.parametrize("name", ["natural-dithering", "dithering"])
@pytest.mark.parametrize("width", [4, 5, 8])
def test_the_error_of_large_blocks_is_that_of_the_levels(d, block, name, width):
    codec, x = mpicomp.codec(f"{name}:bits={width},block={block}"), normal(d, seed=1)
    rounds = max(40, 200_000 // d)  # of two, as of any few, the deviation says little
    errors = [relative_error(codec.decode(codec.encode(x, seed=k), like=x), x) ** 2 for k in range(rounds)]
    want = variances(x, grid(codec), 2).sum() / (x.astype(np.float64) ** 2).sum()
    assert np.mean(errors) == pytest.approx(want, abs=4 * np.std(errors) / np.sqrt(rounds) + 1e-3 * want)
    assert want <= codec.omega(d)


def test_natural_levels_are_exponentially_better_than_even_ones():
    """With 4 bits: as good as 64 even levels, of which 4 bits have 7."""
    x = normal(100_000, seed=1)
    natural, even, many = (
        relative_error(codec.decode(codec.encode(x), like=x), x) ** 2
        for codec in map(
            mpicomp.codec, (f"{s},block=131072" for s in ("natural-dithering:bits=4", "qsgd:bits=4", "qsgd:bits=8"))
        )
    )
    assert natural < even / 8 and many < natural < 3 * many


@pytest.mark.parametrize("spec", ["natural-dithering", "qsgd", "terngrad", "natural-dithering:norm=natural,bits=5"])
def test_a_whole_allreduce_is_unbiased(spec):
    """Sums of 4 ranks, coded on the way up and down, 300 times: the mean within 4 standard errors."""
    xs = [normal(1500, seed=k) for k in range(4)]
    exact, rounds = np.sum(xs, axis=0, dtype=np.float64), 300
    errors = np.array([allreduce(xs, codec=spec, seed=k).arrays[0] - exact for k in range(rounds)])
    deviation = errors.std(axis=0) / np.sqrt(rounds)
    assert (np.abs(errors.mean(axis=0)) < 5 * deviation).all()
    along = (errors * exact).sum(axis=1)
    assert abs(along.mean()) < 4 * along.std() / np.sqrt(rounds)
    w = mpicomp.codec(spec).omega(1500)
    bound = w * sum((x.astype(np.float64) ** 2).sum() for x in xs) * (1 + w) + w * (exact**2).sum()
    assert (errors**2).sum(axis=1).mean() < bound


def test_a_natural_norm_keeps_the_mean():
    codec, rounds = mpicomp.codec("dithering:bits=8,p=inf,norm=natural"), 4000
    many = np.tile(np.linspace(-1.4, 1.4, 512).astype(np.float32), rounds)
    got = codec.decode(codec.encode(many), like=many).reshape(rounds, -1).astype(np.float64)
    assert set(np.unique(np.abs(got).max(axis=1)).tolist()) == {1.0, 2.0}
    deviation = np.sqrt(0.4 * 0.6 / rounds) * np.linspace(-1, 1, 512)
    assert (np.abs(got.mean(axis=0) - many[:512]) <= 4 * np.abs(deviation) + 1e-3).all()


# Norms


def test_the_largest_value_is_exact_under_the_largest_norm():
    for spec, seed in itertools.product(("dithering:p=inf", "natural-dithering:p=inf", "terngrad"), range(20)):
        codec, x = mpicomp.codec(spec), normal(512, seed=seed)
        y = codec.decode(codec.encode(x, seed=seed), like=x)
        at = np.abs(x).argmax()
        assert y[at] == x[at] and np.abs(y).max() == np.abs(x).max()


@each_kind
@pytest.mark.parametrize("spec", ["dithering:p=2", "dithering:p=1", "natural-dithering:p=2", "terngrad"])
def test_the_largest_and_the_smallest_numbers_keep_their_size(kind, spec):
    """Sums of squares that overflow or vanish, and norms above the largest number."""
    codec, dtype = mpicomp.codec(spec), DTYPES[kind]
    largest = np.nextafter(dtype(np.inf), dtype(0))
    with np.errstate(all="ignore"):
        smallest = np.nextafter(dtype(0), dtype(1))
    for value in (largest, smallest):
        x = np.zeros(640, dtype)
        x[3] = -value
        y = codec.decode(codec.encode(x), like=x)
        assert not y[:3].any() and not y[4:].any()
        assert y[3] == x[3] or (kind in ("f16", "bf16") and spec.startswith("dithering"))  # whose steps are rounded up
        x[:] = value
        y = np.array([codec.decode(codec.encode(x, seed=k), like=x).astype(np.float64) for k in range(50)])
        assert np.isfinite(y).all() and y.any()
    for scale in (1e300, 1e-300) if kind == "f64" else ():
        x = normal(512, "f64", scale=scale)
        assert 0.01 < relative_error(codec.decode(codec.encode(x), like=x) / scale, x / scale) < codec.omega(512) ** 0.5


@each_kind
def test_what_cannot_be_stored_makes_its_block_nan_and_no_other(kind):
    codec, x = mpicomp.codec("natural-dithering:block=64"), normal(640, kind)
    x[70], x[300], x[600] = np.nan, np.inf, -np.inf
    y = codec.decode(codec.encode(x), like=x).astype(np.float64).reshape(10, 64)
    bad = np.isin(np.arange(10), [1, 4, 9])
    assert np.isnan(y[bad]).all() and np.isfinite(y[~bad]).all()
    xs = [np.full(640, np.nextafter(DTYPES[kind](np.inf), DTYPES[kind](0)))] * 2
    assert np.isnan(allreduce(xs, codec=codec).arrays[0].astype(np.float64)).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("width", range(2, 9))
@pytest.mark.parametrize("name", ["dithering", "natural-dithering"])
@pytest.mark.parametrize("p", [2, "inf"])
def test_what_short_floats_decode_to_is_what_was_meant(kind, width, name, p):
    """The sums' float32 and the stored value are the same: no rounding that would make a bias."""
    codec, x = mpicomp.codec(f"{name}:bits={width},p={p}"), normal(1000, kind, scale=30)
    wire, total = codec.encode(x), np.zeros(1000, np.float32)
    codec.add_into(wire, total, kind)
    stored = codec.decode(wire, like=x).astype(np.float32)
    representable = np.abs(total) >= 2.0**-14 if kind == "f16" else np.full(1000, True)
    assert np.array_equal(stored[representable], total[representable])


# Sizes and settings


@pytest.mark.parametrize("width", range(2, 9))
@pytest.mark.parametrize("kind, norm", [("f32", 4), ("f64", 8), ("f16", 4), ("bf16", 4)])
def test_values_take_as_many_bits_as_were_asked_for(width, kind, norm):
    for n, spec in itertools.product((1000, 100_003), ("natural-dithering", "dithering")):
        ideal = n * width / 8 + -(-n // 512) * norm
        assert ideal <= mpicomp.codec(f"{spec}:bits={width}").wire_size(n, DTYPES[kind]) <= 1.01 * ideal
        ideal = n * width / 8 + -(-n // 512) * norm / 4
        assert ideal <= mpicomp.codec(f"{spec}:bits={width},norm=natural").wire_size(n, DTYPES[kind]) <= 1.01 * ideal


def test_qsgd_and_terngrad_are_dithering():
    x = normal(3000)
    for name, same in (("qsgd:bits=5", "dithering:bits=5"), ("terngrad", "dithering:bits=2,p=inf")):
        assert np.array_equal(mpicomp.codec(name).encode(x), mpicomp.codec(same).encode(x))
        assert mpicomp.codec(name).omega(3000) == mpicomp.codec(same).omega(3000)


def test_planes_of_bits_follow_the_norm():
    x = np.zeros(70, np.float32)
    x[:3], x[65] = [4, -3, 1], -4
    wire = mpicomp.codec("dithering:bits=4,p=inf,block=64").encode(np.float32(7 / 4) * x)
    assert wire[:4].view("<f4") == 7 and wire[36:40].view("<f4") == 7 and wire.size == 36 + 8
    first = sum(wire[4 + 8 * k].astype(int) & 1 << 0 and 1 << k for k in range(3))
    assert first == 7 and wire[28] & 1 == 0 and wire[28] & 2 == 2
    assert wire[40:44].tolist() == [2, 2, 2, 2]


def test_settings_that_make_no_sense_are_refused():
    for spec, words in {
        "dithering:bits=1": "bits=1 must be 2 to 8",
        "qsgd:bits=9": "bits=9 must be 2 to 8",
        "dithering:block=100": "block=100 must be a multiple of 64",
        "terngrad:block=0": "block=0 must be a multiple of 64",
        "dithering:block=2097152": "at most 1048576",
        "natural-dithering:p=3": "p=3 must be 1, 2 or inf",
        "natural-dithering:p=two": "p='two' must be 1, 2 or inf",
        "natural-dithering:norm=half": "norm='half' must be 'float32' or 'natural'",
        "terngrad:bits=2": "terngrad has no setting 'bits'",
    }.items():
        with pytest.raises(mpicomp.CodecError, match=words):
            mpicomp.codec(spec)
    assert mpicomp.Dithering(p=float("inf")) == mpicomp.Dithering(p="inf") == mpicomp.codec("dithering:p=inf")


def test_codecs_of_different_blocks_go_together():
    xs = [normal(5000, seed=k) for k in range(3)]
    result = allreduce(xs, codec=("qsgd:bits=8,block=192", "natural:bits=8"))
    assert all(np.array_equal(a, result.arrays[0]) for a in result.arrays)
    assert relative_error(result.arrays[0], np.sum(xs, axis=0)) < 0.4


# Correlated rounding


@pytest.mark.parametrize("spec", ["dithering:bits=3", "natural-dithering:bits=3", "terngrad"])
def test_ranks_with_equal_values_cancel_their_errors(spec):
    """Of 8 ranks with r, r + 1/8, ..., the right number goes up: the mean is off by 1/8 of a level at most."""
    codec, x = mpicomp.codec(spec), normal(512)
    total = np.zeros(512)
    for rank in range(8):
        wire = encoded(reference.find, "f32", x, codec.tail(), offset=(rank << 32) // 8)
        total += codec.decode(wire, like=x)
    norm = {2: np.linalg.norm(x), "inf": np.abs(x).max()}[codec.p]
    levels = norm * grid(codec)
    gap = np.diff(levels)[np.clip(np.searchsorted(levels, np.abs(x), side="right") - 1, 0, len(levels) - 2)]
    assert (np.abs(total / 8 - x) <= gap / 8 * (1 + 1e-5)).all()


def test_correlated_sums_of_like_arrays_are_nearer():
    xs = [normal(4000, seed=99) + 0.01 * normal(4000, seed=k) for k in range(8)]
    exact = np.sum(xs, axis=0, dtype=np.float64)
    for spec in ("dithering", "natural-dithering", "terngrad"):
        apart, together = (
            np.mean([relative_error(allreduce(xs, codec=(c, "raw"), seed=k).arrays[0], exact) for k in range(5)])
            for c in (spec, f"{spec}:correlated=true")
        )
        assert together < 0.6 * apart
