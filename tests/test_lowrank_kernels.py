"""The kernels of lowrank in C, at every level, against the NumPy reference, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from mpicomp import reference

SHAPES = [(1, 1), (1, 7), (9, 1), (3, 31), (4, 32), (5, 33), (63, 64), (65, 200), (40, 1001)]
DTYPES = {"f32": np.float32, "f64": np.float64}
each_kind = pytest.mark.parametrize("kind", DTYPES)
each_rank = pytest.mark.parametrize("rank", [1, 2, 3, 5])


def random(kind, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[kind])


def bits(x):
    return x.view(f"u{x.itemsize}")


@each_kind
@each_rank
def test_products_are_the_reference(compiled, kind, rank):
    for m, n in SHAPES:
        x, right = random(kind, m * n), random(kind, rank * n, seed=1)
        left, same = np.zeros(rank * m, x.dtype), np.zeros(rank * m, x.dtype)
        compiled(f"lowrank_project_{kind}")(x, x.size, n, right, left, m, rank)
        reference.find(f"lowrank_project_{kind}")(x, x.size, n, right, same, m, rank)
        assert np.array_equal(bits(left), bits(same))
        assert np.allclose(left.reshape(rank, m), right.reshape(rank, n) @ x.reshape(m, n).T, rtol=1e-4, atol=1e-4)
        back, same = np.ones(rank * n, x.dtype), np.ones(rank * n, x.dtype)
        compiled(f"lowrank_back_{kind}")(x, x.size, n, n, left, back, n, rank)
        reference.find(f"lowrank_back_{kind}")(x, x.size, n, n, left, same, n, rank)
        assert np.array_equal(bits(back), bits(same))
        out, same = np.full(m * n + 2, 7, x.dtype), np.ones(m * n, x.dtype)
        compiled(f"lowrank_expand_{kind}")(left, m, back, rank, m * n, n, out[1:-1])
        reference.find(f"lowrank_expand_{kind}")(left, m, back, rank, m * n, n, same)
        assert np.array_equal(bits(out[1:-1]), bits(same)) and out[0] == out[-1] == 7


@each_kind
def test_parts_of_a_matrix_are_parts_of_its_products(compiled, kind):
    m, n, rank = 70, 192, 3
    x, right = random(kind, m * n), random(kind, rank * n, seed=1)
    left, parts = np.zeros(rank * m, x.dtype), np.zeros(rank * m, x.dtype)
    project, back, expand = (compiled(f"lowrank_{verb}_{kind}") for verb in ("project", "back", "expand"))
    project(x, x.size, n, right, left, m, rank)
    for lo, hi in ((0, 23), (23, 70)):
        project(x[lo * n : hi * n], (hi - lo) * n, n, right, parts[lo:], m, rank)
    assert np.array_equal(left, parts)
    whole, parts = np.zeros(rank * n, x.dtype), np.zeros(rank * n, x.dtype)
    back(x, x.size, n, n, left, whole, n, rank)
    for lo, hi in ((0, 64), (64, 192)):
        back(x[lo:], (m - 1) * n + hi - lo, hi - lo, n, left, parts[lo:], n, rank)
    assert np.array_equal(whole, parts)
    out, same = np.zeros(m * n, x.dtype), np.zeros(m * n, x.dtype)
    expand(left, m, whole, rank, m * n, n, out)
    for lo, hi in ((0, 23), (23, 70)):
        expand(left[lo:], m, whole, rank, (hi - lo) * n, n, same[lo * n : hi * n])
    assert np.array_equal(out, same)


@each_kind
@pytest.mark.parametrize("n, rank", [(1, 1), (5, 1), (5, 5), (33, 2), (1000, 4), (64, 30)])
def test_orthonormalize_is_the_reference_and_orthonormal(compiled, kind, n, rank):
    v = random(kind, rank, n)
    got, want = v.copy(), v.copy()
    compiled(f"lowrank_orthonormalize_{kind}")(got.reshape(-1), n, rank)
    reference.find(f"lowrank_orthonormalize_{kind}")(want.reshape(-1), n, rank)
    assert np.array_equal(bits(got), bits(want))
    accuracy = 1e-6 if kind == "f32" else 1e-14
    assert np.allclose(got.astype("f8") @ got.T.astype("f8"), np.eye(rank), atol=accuracy)
    if rank <= n:
        assert np.allclose(v @ got.T @ got, v, atol=1e-4)  # the same space


@each_kind
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_orthonormalize_is_stable_when_rows_are_nearly_equal(compiled, kind, scale):
    base = random(kind, 1, 500)
    v = (scale * (base + 1e-3 * random(kind, 4, 500, seed=2))).astype(base.dtype)
    compiled(f"lowrank_orthonormalize_{kind}")(v.reshape(-1), 500, 4)
    assert np.allclose(v.astype("f8") @ v.T.astype("f8"), np.eye(4), atol=1e-5 if kind == "f32" else 1e-13)


@each_kind
def test_rows_that_depend_on_others_become_zero_and_nan_stays(compiled, kind):
    v = random(kind, 4, 100)
    v[1], v[2] = 3 * v[0], 0
    compiled(f"lowrank_orthonormalize_{kind}")(v.reshape(-1), 100, 4)
    assert not v[1].any() and not v[2].any() and np.isclose(np.linalg.norm(v[3]), 1)
    for bad in (np.nan, np.inf):
        v = random(kind, 2, 100)
        v[0, 7] = bad
        for kernel in (compiled, reference.find):
            w = v.copy()
            kernel(f"lowrank_orthonormalize_{kind}")(w.reshape(-1), 100, 2)
            assert np.all(np.isnan(w))
