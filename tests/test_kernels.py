"""Every kernel in C, at every level that this processor has, against the NumPy reference, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from common import STORED, levels, special

from mpicomp import reference
from mpicomp.reference import basic
from mpicomp.reference.natural import EIGHT, NINE, SIX, TWELVE

FORMATS = {
    ("natural", "f32"): NINE,
    ("natural", "bf16"): NINE,
    ("natural", "f16"): SIX,
    ("natural", "f64"): TWELVE,
    ("natural8", "f32"): EIGHT,
}
KEY = 0x0123456789ABCDEF
LENGTHS = [*range(201), 511, 512, 513, 1023, 1024, 1025, 65_537, 100_001]
each_format = pytest.mark.parametrize("codec, kind", FORMATS)


def test_the_c_library_is_there():
    assert levels()


def typical(kind, n, seed):
    """Gradients: normal values of several scales."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(n) * np.exp(rng.uniform(-12, 2, n))
    v = v.astype(np.float64 if kind == "f64" else np.float32)
    if kind == "f16":
        return v.astype(np.float16).view(np.uint16)
    return (v.view(np.uint32) >> 16).astype(np.uint16) if kind == "bf16" else v


def encoded(kernel, codec, kind, x, key=KEY, first=0, offset=0, nearest=0, room=None):
    wire = np.full(FORMATS[codec, kind].size(x.size), 0xEE, np.uint8) if room is None else room
    kernel(f"{codec}_encode_{kind}")(x, x.size, wire, key, first, offset, nearest)
    return wire


def bits(a):
    return a.view(f"u{a.itemsize}")


def same_numbers(a, b):
    """Equal bits, but any NaN equals any other: machines differ in which payload a sum keeps."""
    return bool(np.all((bits(a) == bits(b)) | (np.isnan(a) & np.isnan(b))))


@each_format
@pytest.mark.parametrize("nearest", [0, 1])
@pytest.mark.parametrize("offset", [0, 0x9ABCDEF0])
def test_encode_is_the_reference_for_every_kind_of_value(compiled, codec, kind, nearest, offset):
    x = special(kind)
    for each in (x, x[np.random.default_rng(1).permutation(x.size)]):
        got = encoded(compiled, codec, kind, each, first=1 << 40, offset=offset, nearest=nearest)
        want = encoded(reference.find, codec, kind, each, first=1 << 40, offset=offset, nearest=nearest)
        assert np.array_equal(got, want)


@each_format
@pytest.mark.parametrize("scale", [0, 1e-38, 1e-3, 1e4])
def test_one_rare_value_among_common_ones_is_the_reference(compiled, codec, kind, scale):
    """The kernels take a longer way for a block with any rare value in it."""
    rng = np.random.default_rng(6)
    rare = special(kind)
    rare = rare[rng.permutation(rare.size)[:200]]
    sums = np.float64 if kind == "f64" else np.float32
    x = np.empty(rare.size * 512, STORED[kind])
    reference.find(f"round_{kind}")((rng.standard_normal(x.size) * scale).astype(sums), x.size, x)
    x[rng.integers(0, 512, rare.size) + 512 * np.arange(rare.size)] = rare
    extremes = {"f16": [0x7E00, 0x7C00, 0x7BFF, 1], "bf16": [0x7FC0, 0x7F80, 0x7F7F, 1]}.get(
        kind, [np.nan, np.inf, np.finfo(sums).max, np.finfo(sums).smallest_subnormal]
    )
    for i, value in enumerate(extremes):
        x[512 * i : 512 * i + 512] = 0
        x[513 * i] = value
    assert np.array_equal(encoded(compiled, codec, kind, x), encoded(reference.find, codec, kind, x))


@each_format
def test_decode_is_the_reference_for_any_bytes(compiled, codec, kind):
    wire = np.random.default_rng(2).integers(0, 256, FORMATS[codec, kind].size(50_001), np.uint8)
    wire[::3] = 0
    got, want = np.empty(50_001, STORED[kind]), np.empty(50_001, STORED[kind])
    compiled(f"{codec}_decode_{kind}")(wire, got.size, got)
    reference.find(f"{codec}_decode_{kind}")(wire, want.size, want)
    assert np.array_equal(bits(got), bits(want))


@each_format
def test_every_length_is_the_reference_and_stays_in_bounds(compiled, codec, kind):
    for n in LENGTHS:
        x = typical(kind, n, n)
        size = FORMATS[codec, kind].size(n)
        room = np.full(size + 3, 0xEE, np.uint8)  # an odd address, and a guard on each side
        wire = encoded(compiled, codec, kind, x, room=room[1:-2])
        assert room[0] == room[-1] == room[-2] == 0xEE
        assert np.array_equal(wire, encoded(reference.find, codec, kind, x))
        got = np.full(n + 2, 77, STORED[kind])
        compiled(f"{codec}_decode_{kind}")(wire, n, got[1:-1])
        want = np.empty(n, STORED[kind])
        reference.find(f"{codec}_decode_{kind}")(wire, n, want)
        assert got[0] == got[-1] == 77 and np.array_equal(bits(got[1:-1]), bits(want))


@each_format
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 513, 20_001])
def test_add_is_the_reference(compiled, codec, kind, n):
    values = np.resize(special(kind)[::-7], n)
    wire = encoded(reference.find, codec, kind, np.ascontiguousarray(values))
    start = np.random.default_rng(3).standard_normal(n).astype(np.float64 if kind == "f64" else np.float32)
    for weight in (1.0, 0.3):
        got, want = start.copy(), start.copy()
        compiled(f"{codec}_add_{kind}")(wire, n, got, weight)
        reference.find(f"{codec}_add_{kind}")(wire, n, want, weight)
        assert same_numbers(got, want)


@each_format
@pytest.mark.parametrize("n", [0, 1, 64, 200, 512, 10_001])
@pytest.mark.parametrize("p, position", [(0, 0), (1, 0), (1, 1), (3, 1), (9, 9), (2, None), (1, None)])
def test_reduce_is_the_reference(compiled, codec, kind, n, p, position):
    own = None if position is None else typical(kind, n, 50)
    wires = [encoded(reference.find, codec, kind, typical(kind, n, k)) for k in range(p)]
    if n > 1000:
        wires[:1] = [encoded(reference.find, codec, kind, np.resize(special(kind), n)) for _ in wires[:1]]
    for scale, nearest in ((1.0, 0), (1 / 3, 1)):
        outs = [np.full(FORMATS[codec, kind].size(n), 0xEE, np.uint8) for _ in range(2)]
        for kernel, out in zip((compiled, reference.find), outs):
            call = kernel(f"{codec}_reduce_{kind}")
            call(wires, p, position or 0, own, n, scale, out, KEY, 512, 7, nearest)
        assert np.array_equal(*outs)


@each_format
def test_a_wire_may_be_cut_at_any_block(compiled, codec, kind):
    x, block = typical(kind, 5000, 9), 512 if codec == "natural8" else 64
    whole = encoded(compiled, codec, kind, x, offset=99)
    cuts = [0, block, 4 * block, 9 * block, x.size]
    parts = [encoded(compiled, codec, kind, x[lo:hi], first=lo, offset=99) for lo, hi in zip(cuts, cuts[1:])]
    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("kind", STORED)
def test_scale_add_is_the_reference(compiled, kind):
    x = special(kind)
    start = np.ones(x.size, np.float64 if kind == "f64" else np.float32) / 3
    got, want = start.copy(), start.copy()
    compiled(f"scale_add_{kind}")(x, x.size, got, 0.7)
    reference.find(f"scale_add_{kind}")(x, x.size, want, 0.7)
    assert same_numbers(got, want)


@pytest.mark.parametrize("kind", STORED)
def test_what_is_stored_as_the_type_of_sums_is_the_reference(compiled, kind):
    x = special(kind)
    got, want = np.empty((2, x.size), np.float64 if kind == "f64" else np.float32)
    compiled(f"lift_{kind}")(x, x.size, got)
    reference.find(f"lift_{kind}")(x, x.size, want)
    assert same_numbers(got, want)


@pytest.mark.parametrize("kind", STORED)
def test_rounding_sums_is_the_reference(compiled, kind):
    acc = special("f64" if kind == "f64" else "f32")
    if kind in ("f16", "bf16"):  # every value, the midpoints between, and their neighbours
        every = getattr(basic, f"widen_{kind}")(special(kind))
        middle = every.view(np.uint32) + np.uint32(1 << (12 if kind == "f16" else 15))
        around = [(middle + np.uint32(d)).view(np.float32) for d in (0, 1, 0xFFFFFFFF)]
        acc = np.concatenate([acc, every, *around])
        small = np.arange(1 << 12, dtype=np.float32) * np.float32(2.0**-26)
        acc = np.concatenate([acc, small, -small])
    got, want = np.empty(acc.size, STORED[kind]), np.empty(acc.size, STORED[kind])
    compiled(f"round_{kind}")(acc, acc.size, got)
    reference.find(f"round_{kind}")(acc, acc.size, want)
    assert np.array_equal(bits(got), bits(want))
