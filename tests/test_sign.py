"""Signs with a scale: every level of the C kernels is the reference, and the error is what is promised."""

from __future__ import annotations

import numpy as np
import pytest
from common import DTYPES, bits, normal, relative_error
from test_kernels import KEY, STORED, same_numbers, special, typical

import mpicomp
from mpicomp import reference
from mpicomp.reference.sign import Signed
from mpicomp.simulation import allreduce

each_kind = pytest.mark.parametrize("kind", STORED)
each_block = pytest.mark.parametrize("block", [64, 192, 4096])


def encoded(kernel, kind, x, block, room=None):
    wire = np.full(Signed(kind, block).size(x.size), 0xEE, np.uint8) if room is None else room
    kernel(f"sign_encode_{kind}")(x, x.size, wire, KEY, 0, 0, 0, block)
    return wire


def decoded(kernel, kind, wire, n, block):
    out = np.full(n + 2, 77, STORED[kind])
    kernel(f"sign_decode_{kind}")(wire, n, out[1:-1], block)
    assert out[0] == out[-1] == 77
    return out[1:-1]


@each_kind
@each_block
def test_every_length_is_the_reference_and_stays_in_bounds(compiled, kind, block):
    for n in [*range(0, 201, 1 if kind == "f32" else 7), block - 1, block, block + 1, 3 * block + 65]:
        x, size = typical(kind, n, n), Signed(kind, block).size(n)
        room = np.full(size + 3, 0xEE, np.uint8)  # an odd address, and a guard on each side
        wire = encoded(compiled, kind, x, block, room=room[1:-2])
        assert room[0] == room[-1] == room[-2] == 0xEE
        assert np.array_equal(wire, encoded(reference.find, kind, x, block))
        got, want = (decoded(kernel, kind, wire, n, block) for kernel in (compiled, reference.find))
        assert np.array_equal(bits(got), bits(want))


@each_kind
def test_every_kind_of_value_and_any_bytes_are_the_reference(compiled, kind):
    x = special(kind)
    for each in (np.sort(x), x[np.random.default_rng(1).permutation(x.size)][:20_000]):
        wire = encoded(compiled, kind, each, 64)
        assert np.array_equal(wire, encoded(reference.find, kind, each, 64))
        garbage = np.random.default_rng(2).integers(0, 256, wire.size).astype(np.uint8)
        for given in (wire, garbage):
            got, want = (decoded(kernel, kind, given, each.size, 64) for kernel in (compiled, reference.find))
            assert np.array_equal(bits(got), bits(want))


@each_kind
@pytest.mark.parametrize("block", [64, 8192])
@pytest.mark.parametrize("p, position", [(0, 0), (1, 1), (3, 1), (2, None)])
def test_add_and_reduce_are_the_reference(compiled, kind, block, p, position):
    for n in (1, 130, 9000):
        own = None if position is None else typical(kind, n, 50)
        wires = [encoded(reference.find, kind, typical(kind, n, k), block) for k in range(p)]
        outs = [np.full(Signed(kind, block).size(n), 0xEE, np.uint8) for _ in range(2)]
        sums = [np.linspace(-1, 1, n).astype(np.float64 if kind == "f64" else np.float32) for _ in range(2)]
        for kernel, out, total in zip((compiled, reference.find), outs, sums):
            arguments = (wires, p, position or 0, own, n, 1 / 3, out, KEY, 0, 0, 0, block)
            kernel(f"sign_reduce_{kind}")(*arguments)
            for wire in wires:
                kernel(f"sign_add_{kind}")(wire, n, total, 0.3, block)
        assert np.array_equal(*outs) and same_numbers(*sums)


@each_kind
def test_values_become_the_mean_with_their_signs_and_zero_is_positive(kind):
    x = np.array([3.0, -1.0, 0.0, -0.0, -4.0], DTYPES[kind])
    codec = mpicomp.codec("sign")
    y = codec.decode(codec.encode(x), like=x).astype(np.float64)
    assert (np.sign(y) == [1, -1, 1, 1, -1]).all() and np.abs(y) == pytest.approx(8 / 5, rel=4e-3)
    assert codec.encode(x)[-1] == 0b10010


@pytest.mark.parametrize("block", [64, 4096])
def test_the_error_is_the_one_that_is_stated(block):
    """|C(x) - x|^2 = |x|^2 - |x|_1^2 / d in each block, at most 1 - 1/d of |x|^2."""
    codec = mpicomp.codec(f"sign:block={block}")
    one = np.zeros(block, np.float32)
    one[5] = -7
    for x in (normal(block), one, np.ones(block, np.float32), np.exp(normal(block, scale=3))):
        exact = x.astype(np.float64)
        want = 1 - np.abs(exact).sum() ** 2 / block / (exact**2).sum()
        error = relative_error(codec.decode(codec.encode(x), like=x), x) ** 2
        assert error == pytest.approx(want, abs=1e-6) and error <= codec.omega(block) + 1e-6
    assert relative_error(codec.decode(codec.encode(one), like=one), one) ** 2 == pytest.approx(codec.omega(block))
    assert codec.omega(1) == 0 and codec.omega(0) == 0 and not codec.unbiased


def test_gaussian_data_lose_all_but_two_over_pi():
    codec, x = mpicomp.codec("sign"), normal(100_000)
    assert relative_error(codec.decode(codec.encode(x), like=x), x) ** 2 == pytest.approx(1 - 2 / np.pi, abs=0.01)


@each_kind
def test_the_largest_and_the_smallest_numbers_stay_finite(kind):
    codec, dtype = mpicomp.codec("sign:block=64"), DTYPES[kind]
    for value in (np.nextafter(dtype(np.inf), dtype(0)), dtype(2.0**-14)):
        x = np.full(200, value, dtype)
        x[::3] *= -1
        assert np.array_equal(codec.decode(codec.encode(x), like=x), x)


@each_kind
def test_what_cannot_be_stored_makes_its_block_nan_and_no_other(kind):
    codec, x = mpicomp.codec("sign:block=64"), normal(640, kind)
    x[70], x[300], x[600] = np.nan, np.inf, -np.inf
    y = codec.decode(codec.encode(x), like=x).astype(np.float64).reshape(10, 64)
    bad = np.isin(np.arange(10), [1, 4, 9])
    assert np.isnan(y[bad]).all() and np.isfinite(y[~bad]).all()
    xs = [np.full(640, np.nextafter(DTYPES[kind](np.inf), DTYPES[kind](0)))] * 2
    assert np.isnan(allreduce(xs, codec=codec).arrays[0].astype(np.float64)).all()


def test_a_value_takes_a_bit():
    for n in (1000, 100_003):
        ideal = n / 8 + -(-n // 4096) * 4
        assert ideal <= mpicomp.codec("sign").wire_size(n) <= 1.01 * ideal
    assert mpicomp.codec("sign").wire_size(4096, np.float64) == 512 + 8
    with pytest.raises(mpicomp.CodecError, match="block=100 must be a multiple of 64"):
        mpicomp.codec("sign:block=100")


def test_every_rank_gets_the_same_sum():
    xs = [normal(20_000, seed=k) for k in range(3)]
    result = allreduce(xs, codec="sign").arrays
    assert all(np.array_equal(each, result[0]) for each in result)
