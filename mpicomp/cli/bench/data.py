"""Values to measure with: different ones on every rank."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...errors import Error
from . import gradients

KINDS = {
    "normal": "normal",
    "heavy": "Student's t, 3 degrees of freedom",
    "sparse": "normal, of which 99 in 100 are 0",
    "gradient": "",
}


def values(kind: str, n: int, rank: int = 0, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """n values of one of KINDS, or of a file from a place that depends on the rank, from its beginning again where it is
    too short."""
    rng = np.random.default_rng([seed, rank])
    if kind == "normal":
        return rng.standard_normal(n, dtype=dtype)
    if kind == "heavy":
        return rng.standard_t(3, n).astype(dtype)
    if kind == "sparse":
        return (rng.standard_normal(n, dtype=dtype) * (rng.random(n, dtype=np.float32) < 0.01)).astype(dtype)
    if kind == "gradient":
        return gradients.gradients(n, rank, seed).astype(dtype, copy=False)
    if not os.path.exists(kind):
        raise Error(f"--data {kind!r} is neither a file nor one of {', '.join(KINDS)}")
    stored = _stored(kind, dtype)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
        return stored[np.arange(rank * n, rank * n + n) % stored.size].astype(dtype)


def _stored(path: str, dtype: Any) -> np.ndarray:
    """All values of a file: of one array as NumPy stores it, or plain ones."""
    if path.endswith(".npz"):
        raise Error(f"--data {path}: an .npz holds several arrays; store one with numpy.save")
    try:
        stored = np.load(path, mmap_mode="r") if path.endswith(".npy") else np.fromfile(path, dtype)
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise Error(f"--data {path} cannot be read: {error}") from error
    if not isinstance(stored, np.ndarray) or stored.dtype.kind not in "fiub":
        raise Error(f"--data {path}: {getattr(stored, 'dtype', 'what it holds')} is no type of real numbers")
    if not stored.size:
        raise Error(f"--data {path}: there are no values in it")
    return stored.reshape(-1)


def describe(kind: str) -> str:
    """What the values are."""
    return gradients.describe() if kind == "gradient" else KINDS.get(kind, kind)


def square(n: int) -> tuple[int, int]:
    """The shape of a matrix of n values, as square as can be."""
    rows = next(m for m in range(int(n**0.5), 0, -1) if n % m == 0)
    return rows, n // rows
