"""Products of a matrix with thin factors, as in kernels/cpu/lowrank.c: see there for what each is, and in which order."""

from __future__ import annotations

import numpy as np

LANES = 32
DEPENDENT = {4: 1e-5, 8: 1e-13}


def dots(rows: np.ndarray, other: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The dot product of each row with `other`: in lanes, then halved."""
    n = other.size
    products = np.zeros((-(-n // LANES) + 1, len(rows), LANES), dtype)  # the first of each lane is 0
    padded = np.zeros((len(rows), (len(products) - 1) * LANES), dtype)
    padded[:, :n] = rows.astype(dtype) * other.astype(dtype)
    products[1:] = padded.reshape(len(rows), -1, LANES).transpose(1, 0, 2)
    sums = np.add.accumulate(products, axis=0)[-1]
    half = LANES // 2
    while half:
        sums = sums[:, :half] + sums[:, half:]
        half //= 2
    return sums[:, 0]


def project(x, n, cols, right, left, pace, rank):
    """left = matrix right^T."""
    matrix, rows = x[:n].reshape(-1, cols), n // cols
    with np.errstate(all="ignore"):
        for t in range(rank):
            left[t * pace : t * pace + rows] = dots(matrix, right[t * cols : (t + 1) * cols], x.dtype)


def back(x, n, cols, stride, left, right, pace, rank):
    """right = left matrix."""
    rows = (n - cols) // stride + 1
    with np.errstate(all="ignore"):
        for t in range(rank):
            total = np.zeros(cols, x.dtype)
            for i in range(rows):
                total += left[t * rows + i] * x[i * stride : i * stride + cols]
            right[t * pace : t * pace + cols] = total


def expand(left, pace, right, rank, n, cols, out):
    """out = left^T right."""
    result, rows = out[:n].reshape(-1, cols), n // cols
    with np.errstate(all="ignore"):
        for t in range(rank):
            product = left[t * pace : t * pace + rows, None] * right[t * cols : (t + 1) * cols]
            result[:] = product if t == 0 else result + product


def orthonormalize(left, n, rank):
    """The rows of left, by Gram-Schmidt, twice."""
    vectors = left[: n * rank].reshape(rank, n)
    with np.errstate(all="ignore"):
        for t, v in enumerate(vectors):
            finite = np.abs(v[~np.isnan(v)])
            most = finite.max(initial=0)
            if most == 0:
                continue
            v /= most
            before = _dot(v, v)
            for s in [*range(t), *range(t)]:
                v -= v.dtype.type(_dot(vectors[s], v)) * vectors[s]
            after = _dot(v, v)
            if after <= DEPENDENT[v.itemsize] ** 2 * before:
                v[:] = 0
            else:
                v[:] = v.astype(np.float64) / np.sqrt(after)


def _dot(a: np.ndarray, b: np.ndarray) -> np.float64:
    return dots(a[None], b, np.dtype(np.float64))[0]


lowrank_project_f32 = lowrank_project_f64 = project
lowrank_back_f32 = lowrank_back_f64 = back
lowrank_expand_f32 = lowrank_expand_f64 = expand
lowrank_orthonormalize_f32 = lowrank_orthonormalize_f64 = orthonormalize
