"""grid: values on an absolute grid, by the codec and by its kernels."""

from __future__ import annotations

import numpy as np
import pytest
from common import bits, special

import mpicomp
from mpicomp import reference

KEY = 0x0123456789ABCDEF
TYPES = {"f32": np.float32, "f64": np.float64}


def test_the_grid_is_unbiased_within_its_range_and_bounded():
    codec, n = mpicomp.codec("grid:step=0.25,bits=4"), 4000
    x = np.random.default_rng(0).uniform(-1.7, 1.7, n).astype("f4")
    errors = np.mean([codec.decode(codec.encode(x, seed=s), like=x) - x for s in range(400)], axis=0)
    assert np.abs(errors).max() < 6 * 0.125 / 400**0.5
    assert np.abs(codec.decode(codec.encode(x), like=x) - x).max() < 0.25
    assert codec.wire_size(n) == n // 2


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_grid_keeps_its_points_and_cuts_off_beyond(bits, dtype):
    codec = mpicomp.Grid(step=0.5, bits=bits)
    most = ((1 << bits - 1) - 1) * 0.5
    x = np.array([0, 0.5, -0.5, most, -most, 1e30, -1e30, np.nan, np.inf, -np.inf, most], dtype)
    y = codec.decode(codec.encode(x, seed=3), like=x)
    assert y[:5].tolist() == x[:5].tolist() and y[5:7].tolist() == [most, -most]
    assert np.isnan(y[7:10]).all() and y[10] == most
    assert mpicomp.codec(str(codec)) == codec


def test_impossible_grids_are_refused():
    for spec in ("grid:bits=3", "grid:step=0", "grid:step=-1", "grid:step=inf"):
        with pytest.raises(mpicomp.CodecError):
            mpicomp.codec(spec)


def encoded(find, kind, x, step, width, first=0):
    wire = np.full(-(-x.size * width // 8) + 2, 0xEE, np.uint8)  # a guard on each side, and an odd address
    find(f"grid_encode_{kind}")(x, x.size, wire[1:-1], KEY, first, 0, 0, step, width)
    assert wire[0] == wire[-1] == 0xEE
    return wire[1:-1]


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("kind", TYPES)
def test_encode_is_the_reference(compiled, kind, width):
    """All exponents, infinities and NaN; steps so small that every quotient is infinite, and so large that none counts."""
    rng = np.random.default_rng(3)
    for step in (0.01, 1 / 3, 1e-300, 1e300):
        with np.errstate(over="ignore"):
            around = (rng.normal(size=10_001) * step * 2.0 ** (width - 3)).astype(TYPES[kind])
        for x in (special(kind), around):
            wire = encoded(compiled, kind, x, step, width, first=640)
            assert np.array_equal(wire, encoded(reference.find, kind, x, step, width, first=640))


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("kind", TYPES)
def test_decode_is_the_reference_for_any_bytes_and_length(compiled, kind, width):
    for n in [*range(131), 1000, 100_001]:
        wire = np.random.default_rng(n).integers(0, 256, -(-n * width // 8), np.uint8)
        got, want = np.full((2, n + 2), 77, TYPES[kind])
        compiled(f"grid_decode_{kind}")(wire, n, got[1:-1], 0.3, width)
        reference.find(f"grid_decode_{kind}")(wire, n, want[1:-1], 0.3, width)
        assert np.array_equal(bits(got), bits(want))


@pytest.mark.parametrize("kind", TYPES)
def test_every_length_is_the_reference(compiled, kind):
    for n in [*range(131), 1000]:
        x = np.random.default_rng(n).normal(size=n).astype(TYPES[kind])
        for width in (2, 4, 8, 16):
            assert np.array_equal(encoded(compiled, kind, x, 0.1, width), encoded(reference.find, kind, x, 0.1, width))
