"""The kernels of topk and randk in C, at every level, against the NumPy reference, bit for bit; and any bytes as wires."""

from __future__ import annotations

import numpy as np
import pytest

from mpicomp import reference

STORED = {"f32": np.float32, "f64": np.float64, "f16": np.uint16, "bf16": np.uint16}
SUMS = {"f32": np.float32, "f64": np.float64, "f16": np.float32, "bf16": np.float32}
KEY = 0x0123456789ABCDEF
SHAPES = [(1, 1), (2, 1), (5, 3), (63, 7), (64, 64), (65, 1), (1000, 10), (4096, 41), (5000, 4999), (65536, 655)]
each_kind = pytest.mark.parametrize("kind", STORED)
each_codec = pytest.mark.parametrize("codec", ["topk", "randk"])


def data(kind, n, seed, style="normal"):
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(n) * np.exp(rng.uniform(-3, 3, n))
    if style == "ties":
        v = rng.integers(-3, 4, n).astype(float)
    elif style == "zeros":
        v = np.zeros(n)
    elif style == "rising":  # a sample of every so many values says little about these
        v = np.where(np.arange(n) % 64 == 0, 0.0, np.arange(n) / n)
    elif style == "special":
        v[rng.integers(0, n, max(1, n // 50))] = np.nan
        v[rng.integers(0, n, max(1, n // 50))] = -np.inf
    v = v.astype(np.float64 if kind == "f64" else np.float32)
    if kind == "f16":
        with np.errstate(over="ignore", under="ignore"):
            return v.astype(np.float16).view(np.uint16)
    return (v.view(np.uint32) >> 16).astype(np.uint16) if kind == "bf16" else v


def tail_size(codec, m, k):
    return 8 if codec == "randk" else -(-k * (m - 1).bit_length() // 8) + 1


def selected(kernel, codec, kind, x, m, k, first=5):
    """A wire with the values first, an odd number of bytes a block so that nothing is aligned, and guards between."""
    inner = k * x.itemsize
    stride = inner + tail_size(codec, m, k) | 1
    wire = np.full(x.size // m * stride + 1, 0xEE, np.uint8)[1:]
    kernel(f"{codec}_select_{kind}")(x, x.size, m, k, wire, stride, wire[inner:], stride, KEY, first)
    return wire, stride


def decoded(kernel, codec, kind, wire, stride, m, k, n):
    out = np.full(n + 2, 77, STORED[kind])
    inner = k * out.itemsize
    status = kernel(f"{codec}_scatter_{kind}")(wire, stride, wire[inner:], stride, n, m, k, out[1:-1])
    assert out[0] == out[-1] == 77
    return status, out[1:-1]


@each_codec
@each_kind
@pytest.mark.parametrize("style", ["normal", "ties", "zeros", "rising", "special"])
def test_select_is_the_reference(compiled, codec, kind, style):
    for m, k in SHAPES:
        x = data(kind, m * (2 if m > 60000 else 3), m, style)
        got, want = (selected(kernel, codec, kind, x, m, k)[0] for kernel in (compiled, reference.find))
        assert np.array_equal(got, want), (m, k)


@each_kind
@pytest.mark.parametrize("skipped", [0, 1, 5])
def test_one_value_that_is_not_finite_marks_its_block_wherever_it_is(compiled, kind, skipped):
    m, k = 601, 2
    x, bad = np.zeros(m + skipped, STORED[kind])[skipped:], data(kind, 1, 0, "special")[0]
    last = k * x.itemsize + 7  # of the wire, whose first bit is the mark
    assert selected(compiled, "randk", kind, x, m, k)[0][last] < 128
    for place in range(m):
        x[place] = bad
        assert selected(compiled, "randk", kind, x, m, k)[0][last] >= 128, place
        x[place] = 0


@each_codec
@each_kind
@pytest.mark.parametrize("style", ["normal", "special"])
def test_scatter_and_accumulate_are_the_reference(compiled, codec, kind, style):
    for m, k in SHAPES:
        x = data(kind, 2 * m, m, style)
        wire, stride = selected(reference.find, codec, kind, x, m, k)
        results = [decoded(kernel, codec, kind, wire, stride, m, k, x.size) for kernel in (compiled, reference.find)]
        assert results[0][0] == results[1][0] == 0
        assert results[0][1].tobytes() == results[1][1].tobytes(), (m, k)
        sums = []
        for kernel in (compiled, reference.find):
            acc = np.linspace(-1, 1, x.size).astype(SUMS[kind])
            call = kernel(f"{codec}_accumulate_{kind}")
            assert call(wire, stride, wire[k * x.itemsize :], stride, x.size, m, k, acc, 0.3) == 0
            sums.append(acc)
        assert np.array_equal(*sums, equal_nan=True), (m, k)


def test_large_results_are_the_same_as_small_ones(compiled):
    """From 128 KB on the kernels write around the caches."""
    m, k, n = 65536, 655, 5 << 20
    x = data("f32", n, 1)
    for codec in ("topk", "randk"):
        wire, stride = selected(compiled, codec, "f32", x, m, k)
        whole = decoded(compiled, codec, "f32", wire, stride, m, k, n)[1]
        aligned = np.empty(n + 16, np.float32)
        aligned = aligned[-(aligned.ctypes.data // 4) % 16 :][:n]
        compiled(f"{codec}_scatter_f32")(wire, stride, wire[k * 4 :], stride, n, m, k, aligned)
        parts = [decoded(compiled, codec, "f32", wire[b * stride :], stride, m, k, m)[1].copy() for b in range(n // m)]
        assert np.array_equal(whole, np.concatenate(parts)) and np.array_equal(aligned, whole)


@each_kind
def test_topk_keeps_the_largest_and_of_equal_ones_the_first(compiled, kind):
    for style in ("normal", "ties", "zeros"):
        for m, k in SHAPES:
            x = data(kind, m, m + 1, style)
            bits = x.view(f"u{x.itemsize}").astype(np.uint64) & np.uint64((1 << 8 * x.itemsize - 1) - 1)
            want = np.sort(np.argsort(-bits.astype(np.int64), kind="stable")[:k])
            wire, stride = selected(compiled, "topk", kind, x, m, k)
            expected = np.zeros_like(x)
            expected[want] = x[want]
            _, out = decoded(compiled, "topk", kind, wire, stride, m, k, m)
            assert out.tobytes() == expected.tobytes()


@each_kind
def test_topk_refuses_indices_that_do_not_rise_or_are_out_of_range(compiled, kind):
    m, k = 1000, 10
    x = data(kind, m, 3)
    wire, stride = selected(compiled, "topk", kind, x, m, k)
    inner = k * x.itemsize
    for change in ("repeat", "range", "mark"):
        bad = wire.copy()
        index = np.arange(k) * 7
        if change == "repeat":
            index[5] = index[4]
        if change == "range":
            index[-1] = 1000
        packed = np.packbits((index[:, None] >> np.arange(10) & 1).astype(np.uint8).ravel(), bitorder="little")
        bad[inner : inner + packed.size] = packed
        if change == "mark":
            bad[inner + packed.size] = 2
        for kernel in (compiled, reference.find):
            assert decoded(kernel, "topk", kind, bad, stride, m, k, m)[0] != 0
            acc = np.zeros(m, SUMS[kind])
            assert kernel(f"topk_accumulate_{kind}")(bad, stride, bad[inner:], stride, m, m, k, acc, 1.0) != 0


@each_codec
@each_kind
def test_any_bytes_stay_in_bounds(compiled, codec, kind):
    rng = np.random.default_rng(9)
    for m, k in SHAPES[:8]:
        inner = k * np.dtype(STORED[kind]).itemsize
        stride = inner + tail_size(codec, m, k)
        for _ in range(20):
            wire = rng.integers(0, 256, 2 * stride, np.uint8)
            status, out = decoded(compiled, codec, kind, wire, stride, m, k, 2 * m)
            want, expected = decoded(reference.find, codec, kind, wire, stride, m, k, 2 * m)
            assert bool(status) == bool(want)
            if not status:
                got, same = (v.view(np.float32 if kind == "f32" else out.dtype) for v in (out, expected))
                assert np.array_equal(got, same, equal_nan=kind in ("f32", "f64"))


@pytest.mark.parametrize("m, k", [(6, 3), (7, 3), (11, 8), (64, 63), (100, 1), (130, 65)])
def test_randk_draws_every_value_equally_often(m, k):
    """Also where k does not divide m. 20,000 draws: no value's number is 4.5 standard deviations off."""
    from mpicomp.reference.sparse import drawn

    draws, counts = 20_000, np.zeros(m)
    for key in range(draws):
        found = drawn(key * 0x9E3779B97F4A7C15 & (1 << 63) - 1, m, k)
        assert np.all(np.diff(found) > 0) and found.size == k
        counts[found] += 1
    share = k / m
    assert np.all(np.abs(counts - draws * share) < 4.5 * np.sqrt(draws * share * (1 - share)))


def test_randk_draws_one_value_of_each_cell_whatever_the_others_are():
    """Two cells of four values at a fixed turn: all 16 pairs alike, chi-square with 15 degrees of freedom."""
    from mpicomp.reference.sparse import drawn, words

    counts = np.zeros((4, 4))
    for key in range(40_000):
        own = key * 0x9E3779B97F4A7C15 & (1 << 63) - 1
        turn = (int(words(own, 1024, 1)[0]) >> 16) * 8 >> 48
        low, high = np.sort((drawn(own, 8, 2) - turn) % 8)
        counts[low, high - 4] += 1
    assert np.sum((counts - 2500) ** 2 / 2500) < 37.7  # p = 0.001
