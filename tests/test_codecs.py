"""The codec API: specs, encode and decode, sizes, error bounds, and what is said about mistakes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from common import DTYPES, SPECS, bits, normal, use_level

import mpicomp
from mpicomp.codecs import names
from mpicomp.codecs.base import REGISTRY

LENGTHS = [0, 1, 7, 63, 64, 65, 511, 512, 513, 1000]
CARRIED = [(spec, kind) for spec in SPECS for kind in mpicomp.codec(spec).kinds]
each_spec = pytest.mark.parametrize("spec", SPECS)
each_carried = pytest.mark.parametrize("spec, kind", CARRIED)


# Specs


@each_spec
def test_a_codec_is_its_spec_and_its_repr(spec):
    codec = mpicomp.codec(spec)
    assert mpicomp.codec(str(codec)) == codec
    assert eval(repr(codec), vars(mpicomp)) == codec
    assert hash(eval(repr(codec), vars(mpicomp))) == hash(codec)
    assert str(codec) == spec


@each_spec
def test_complex_numbers_take_the_bytes_of_pairs(spec):
    codec, x = mpicomp.codec(spec), np.zeros(1000, np.complex64)
    if "f32" in codec.kinds:
        for dtype in (np.complex64, "complex64", "F", x.dtype):
            assert codec.encode(x).size <= codec.wire_size(1000, dtype) == codec.wire_size(2000)
    if "f64" in codec.kinds:
        assert codec.wire_size(1000, complex) == codec.wire_size(2000, np.float64)


@pytest.mark.parametrize("wrong, words", [(-1, "n=-1 must be at least 0"), (1.5, "n=1.5 must be a whole number")])
def test_there_is_no_size_of_less_than_nothing(wrong, words):
    for codec in (mpicomp.Natural(), mpicomp.LowRank(), mpicomp.TopK()):
        with pytest.raises(ValueError, match=re.escape(words)):
            codec.wire_size(wrong)


@pytest.mark.parametrize("spec", [*SPECS, "grid", "lowrank", "topk", "randk", "topk|natural"])
def test_error_bounds_are_of_whole_numbers_of_values(spec):
    codec = mpicomp.codec(spec)
    for wrong in (-1, 1.5, "3", None):
        with pytest.raises(ValueError, match=re.escape(f"n={wrong!r} must be")):
            codec.omega(wrong)
    assert codec.omega(np.int32(700)) == codec.omega(700) >= 0 and codec.omega(0) >= 0


@pytest.mark.parametrize("name", names())
def test_every_codec_is_a_public_class_named_like_its_spec(name):
    cls = REGISTRY[name]
    assert getattr(mpicomp, cls.__name__) is cls
    assert cls.__name__ in mpicomp.__all__
    assert cls.__name__.lower().replace("-", "") == name.replace("-", "")
    assert cls.__module__ == f"mpicomp.codecs.{name.replace('-', '_')}"


def test_settings_are_read_with_their_types():
    assert mpicomp.codec(" natural : bits = 8 , rounding=nearest ") == mpicomp.Natural(bits=8, rounding="nearest")
    assert mpicomp.codec("natural:correlated=true") == mpicomp.Natural(correlated=True)
    assert mpicomp.codec(mpicomp.Natural(bits=8)) == mpicomp.Natural(bits=8)
    assert repr(mpicomp.Natural(bits=8)).startswith("Natural(bits=8")


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: mpicomp.TopK(k=2.5), "topk: k=2.5 must be a whole number"),
        (lambda: mpicomp.TopK(k=0), "topk: k=0 must be from 1 to block=65536"),
        (lambda: mpicomp.TopK(k=True), "topk: k=True must be a whole number"),
        (lambda: mpicomp.TopK(block=64.0), "topk: block=64.0 must be a whole number"),
        (lambda: mpicomp.TopK(ratio="0.1"), "topk: ratio='0.1' must be a number"),
        (lambda: mpicomp.RandK(ratio=None), "randk: ratio=None must be a number"),
        (lambda: mpicomp.LowRank(rank=2.5), "lowrank: rank=2.5 must be a whole number"),
        (lambda: mpicomp.Grid(step="a"), "grid: step='a' must be a number"),
        (lambda: mpicomp.Grid(step=1j), "grid: step=1j must be a number"),
        (lambda: mpicomp.Natural(correlated="no"), "natural: correlated='no' must be true or false"),
        (lambda: mpicomp.Natural(bits=8.0), "natural: bits=8.0 must be a whole number"),
        (lambda: mpicomp.QSGD(bits="4"), "qsgd: bits='4' must be a whole number"),
        (lambda: mpicomp.Sign(block=None), "sign: block=None must be a whole number"),
        (lambda: mpicomp.Chain("topk", mpicomp.Natural()), "Chain: first='topk' must be a codec"),
        (lambda: mpicomp.Zstd("natural"), "zstd: inner='natural' must be a codec"),
        (lambda: mpicomp.Dithering(p=True), "dithering: p=True must be a number or text"),
        (lambda: mpicomp.Dithering(p=np.array(2)), "dithering: p=array(2) must be a number or text"),
        (lambda: mpicomp.Dithering(p=3), "dithering: p=3 must be 1, 2 or inf"),
        (lambda: mpicomp.Dithering(norm=np.array("natural")), "dithering: norm=array('natural'"),
        (lambda: mpicomp.Natural(rounding=np.array(["nearest"])), "natural: rounding=array(['nearest']"),
        (lambda: mpicomp.Grid(step=10**400), "grid: step is too large for a float"),
        (lambda: mpicomp.Grid(step=float("inf")), "grid: step=inf must be positive and finite"),
    ],
)
def test_settings_of_classes_are_checked_by_their_types(make, words):
    with pytest.raises(mpicomp.CodecError, match=re.escape(words)):
        make()


def test_numbers_of_numpy_are_settings_like_pythons():
    codec = mpicomp.TopK(k=np.int64(3), block=np.uint16(128))
    assert codec == mpicomp.TopK(k=3, block=128) and (type(codec.k), type(codec.block)) == (int, int)
    assert type(mpicomp.Grid(step=np.float64(0.5)).step) is type(mpicomp.Grid(step=1).step) is float
    assert mpicomp.Natural(correlated=np.True_) == mpicomp.Natural(correlated=True)
    for made in (mpicomp.Natural(rounding=np.str_("nearest")), mpicomp.Dithering(p=np.str_("inf"))):
        assert made == mpicomp.codec(str(made)) == eval(repr(made), vars(mpicomp))
    assert mpicomp.codec(str(codec)) == codec


def test_codecs_cannot_be_changed():
    with pytest.raises(AttributeError):
        mpicomp.Natural().bits = 8


@pytest.mark.parametrize(
    "spec, words",
    [
        ("naturl", ["no codec named 'naturl'", "did you mean 'natural'?", "known: ", "bf16", "fp16", "raw"]),
        ("", ["no codec named ''"]),
        ("natural:bit=8", ["natural has no setting 'bit'", "did you mean 'bits'?", "rounding"]),
        ("raw:bits=8", ["raw has no setting 'bits'", "known: none"]),
        ("topk:k=0", ["k=0 must be from 1 to block=65536"]),
        ("topk:ratio=0.01,k=3", ["give ratio= or k=, not both"]),
        ("natural:bits=7", ["bits=7", "8 or 9"]),
        ("natural:bits=eight", ["bits='eight'", "whole number"]),
        ("natural:bits", ["'bits' has no value"]),
        ("natural:bits=8,bits=9", ["'bits' is given twice"]),
        ("natural:rounding=up", ["rounding='up'", "'stochastic' or 'nearest'"]),
        ("natural:correlated=perhaps", ["correlated='perhaps'", "true or false"]),
    ],
)
def test_mistakes_in_a_spec_are_named(spec, words):
    with pytest.raises(mpicomp.CodecError) as caught:
        mpicomp.codec(spec)
    assert isinstance(caught.value, ValueError)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("spec", [None, 8, b"natural", ["natural"]])
def test_a_spec_is_a_string_or_a_codec(spec):
    with pytest.raises(TypeError, match=f"must be a spec or a Codec, not {type(spec).__name__}"):
        mpicomp.codec(spec)


# Encoding and decoding


@each_carried
@pytest.mark.parametrize("n", LENGTHS)
def test_wires_have_the_length_that_wire_size_says(spec, kind, n):
    codec, x = mpicomp.codec(spec), normal(n, kind)
    wire = codec.encode(x)
    assert wire.dtype == np.uint8 and wire.ndim == 1
    assert wire.size == codec.wire_size(n, DTYPES[kind]) == codec.wire_size(n, np.dtype(DTYPES[kind]).name)


@each_carried
def test_decoding_gives_an_array_like_the_one_given(spec, kind):
    codec, x = mpicomp.codec(spec), normal(60, kind).reshape(3, 4, 5)
    y = codec.decode(codec.encode(x), like=x)
    assert type(y) is np.ndarray and y.shape == x.shape and y.dtype == x.dtype and not np.shares_memory(x, y)
    out = np.empty_like(x)
    assert codec.decode(codec.encode(x), out=out) is out
    assert (bits(out) == bits(y)).all()


@each_carried
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(spec, kind):
    codec, x = mpicomp.codec(spec), normal(1000, kind)
    assert (codec.encode(x, seed=7) == codec.encode(x, seed=7)).all()
    if codec.unbiased and spec != "raw":
        assert (codec.encode(x, seed=7) != codec.encode(x, seed=8)).any()
    else:
        assert (codec.encode(x, seed=7) == codec.encode(x, seed=8)).all()


@each_carried
def test_encoding_leaves_its_argument_alone(spec, kind):
    x = normal(200, kind)
    before = x.copy()
    x.flags.writeable = False
    mpicomp.codec(spec).encode(x)
    assert (bits(x) == bits(before)).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_raw_is_exact(kind):
    codec, x = mpicomp.codec("raw"), normal(1000, kind)
    assert (bits(codec.decode(codec.encode(x), like=x)) == bits(x)).all()


def test_wires_may_be_any_bytes_object():
    codec, x = mpicomp.codec("natural"), normal(100)
    wire, y = codec.encode(x), codec.decode(codec.encode(x), like=x)
    for form in (wire.tobytes(), bytearray(wire), memoryview(wire.tobytes()), wire.reshape(1, -1)):
        assert (bits(codec.decode(form, like=x)) == bits(y)).all()


def test_complex_arrays_travel_as_pairs():
    codec = mpicomp.codec("natural:rounding=nearest")
    z = (normal(33) + 1j * normal(33, seed=1)).astype(np.complex64)
    y = codec.decode(codec.encode(z), like=z)
    assert y.dtype == z.dtype
    real = z.view(np.float32)
    assert (bits(y.view(np.float32)) == bits(codec.decode(codec.encode(real), like=real))).all()


def test_arrays_in_fortran_order_and_scalars_keep_their_layout():
    codec = mpicomp.codec("raw")
    x = np.asfortranarray(normal(12).reshape(3, 4))
    assert (codec.decode(codec.encode(x), like=x) == x).all()
    zero_d = np.array(2.5, np.float32)
    assert codec.decode(codec.encode(zero_d), like=zero_d) == 2.5


# How wrong it can be


@each_carried
def test_the_error_is_within_omega(spec, kind):
    codec, x = mpicomp.codec(spec), normal(20_000, kind)
    y = codec.decode(codec.encode(x, seed=3), like=x).astype(np.float64)
    measured = ((y - x.astype(np.float64)) ** 2).sum() / (x.astype(np.float64) ** 2).sum()
    assert measured <= codec.omega(x.size)


@pytest.mark.parametrize("spec, kind", [(s, k) for s, k in CARRIED if mpicomp.codec(s).unbiased])
def test_unbiased_codecs_are_right_on_average(spec, kind):
    """The mean of 2000 decodings, value by value, lies within 5.5 standard errors (the worst of 256: about 1 in 10^5)."""
    codec, x = mpicomp.codec(spec), np.linspace(0.1, 3.1, 256).astype(DTYPES[kind])
    total, squares = np.zeros(256), np.zeros(256)
    for seed in range(2000):
        y = codec.decode(codec.encode(x, seed=seed), like=x).astype(np.float64)
        total += y
        squares += y**2
    mean = total / 2000
    deviation = np.sqrt(np.maximum(squares / 2000 - mean**2, 0) / 2000)
    assert (np.abs(mean - x.astype(np.float64)) <= 5.5 * deviation + 1e-12).all()


def test_values_below_the_smallest_normal_number_become_zero_or_that():
    """The mean of 100,000 within 5 standard errors; the error is far above omega, as its docstring says."""
    codec, x = mpicomp.codec("natural"), np.full(100_000, 1e-5, np.float16)
    y = codec.decode(codec.encode(x), like=x).astype(np.float64)
    assert set(y) == {0, 2.0**-14}
    assert abs(y.mean() - float(x[0])) < 5 * y.std() / x.size**0.5
    halves, small = mpicomp.codec("fp16"), np.linspace(1e-8, 6e-5, 1000, dtype=np.float32)
    assert np.abs(halves.decode(halves.encode(small), like=small) - small).max() <= 2.0**-25


@each_carried
def test_nan_and_inf_never_become_finite(spec, kind):
    codec, x = mpicomp.codec(spec), normal(3000, kind)
    places = [0, 63, 64, 777, 1600, 2999]
    x[places[::2]], x[places[1::2]] = np.nan, [np.inf, -np.inf, np.inf]
    y = codec.decode(codec.encode(x), like=x).astype(np.float64)
    assert np.isnan(y[places[::2]]).all()
    assert not np.isfinite(y[places]).any()
    known = y[places[1::2]]
    assert (np.isnan(known) | (known == [np.inf, -np.inf, np.inf])).all()


@each_carried
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_one_special_value_among_ordinary_ones_is_encoded_as_by_the_reference(monkeypatch, spec, kind, special, scale):
    codec = mpicomp.codec(spec)
    with np.errstate(all="ignore"):
        x = normal(600, kind, scale=scale)
    x[77] = special
    wire = codec.encode(x)
    use_level(monkeypatch, "reference")
    assert (wire == codec.encode(x)).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_the_largest_finite_number_never_rounds_to_infinity(kind):
    largest = np.nextafter(DTYPES[kind](np.inf), DTYPES[kind](0))
    x = np.full(1000, largest, DTYPES[kind])
    codec = mpicomp.codec("natural")
    for seed in range(5):
        assert np.isfinite(codec.decode(codec.encode(x, seed=seed), like=x).astype(np.float64)).all()


# Bad input


@each_carried
def test_a_wire_of_the_wrong_length_is_refused(spec, kind):
    codec, x = mpicomp.codec(spec), normal(100, kind)
    out = x.copy()
    wire = codec.encode(x)
    for wrong in (wire[:-1], np.append(wire, np.uint8(0)), b""):
        with pytest.raises(mpicomp.WireError, match=f"wire has {len(wrong)} bytes.*{wire.size} for 100"):
            codec.decode(wrong, out=out)
    assert (bits(out) == bits(x)).all()


@each_carried
def test_any_bytes_at_all_can_be_decoded(spec, kind):
    codec, n = mpicomp.codec(spec), 1537
    size = codec.wire_size(n, DTYPES[kind])
    for seed in range(10):
        garbage = np.random.default_rng(seed).integers(0, 256, size + 128).astype(np.uint8)
        out = np.zeros(n + 128, DTYPES[kind])
        codec.decode(garbage[64 : 64 + size], out=out[64:-64])
        assert not bits(out)[:64].any() and not bits(out)[-64:].any()


@pytest.mark.parametrize("bad", [np.arange(5), np.array(["a"]), [1.0, 2.0], "text", None, np.zeros(3, ">f4")])
def test_only_floating_point_arrays_are_encoded(bad):
    with pytest.raises(mpicomp.CodecError, match="x must hold floating-point numbers"):
        mpicomp.codec("natural").encode(bad)


def test_kinds_that_a_codec_cannot_carry_are_named():
    with pytest.raises(mpicomp.CodecError, match="'natural:bits=8' cannot carry float64 .it carries float32."):
        mpicomp.codec("natural:bits=8").encode(np.zeros(3))
    with pytest.raises(mpicomp.CodecError, match="dtype=.*int32.* is not a floating-point type"):
        mpicomp.codec("natural").wire_size(3, np.int32)


def test_arrays_with_gaps_and_read_only_outputs_are_refused():
    codec, x = mpicomp.codec("natural"), normal(100)
    with pytest.raises(ValueError, match="x is not contiguous"):
        codec.encode(x[::2])
    out = np.zeros(100, np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        codec.decode(codec.encode(x), out=out)
    with pytest.raises(TypeError, match="either like= or out="):
        codec.decode(codec.encode(x))
    with pytest.raises(ValueError, match="wire must be contiguous bytes"):
        codec.decode(12, like=x)
