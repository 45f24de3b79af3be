"""Values to measure with: different ones on every rank."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...errors import Error

KINDS = ("normal", "heavy", "sparse")


def values(kind: str, n: int, rank: int = 0, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """n values: normal; heavy-tailed (Student's t with 3 degrees of freedom); sparse (one in a hundred is not 0); or
    those of a file from a place that depends on the rank, again from its beginning where it is too short."""
    rng = np.random.default_rng([seed, rank])
    if kind == "normal":
        return rng.standard_normal(n, dtype=dtype)
    if kind == "heavy":
        return rng.standard_t(3, n).astype(dtype)
    if kind == "sparse":
        return (rng.standard_normal(n, dtype=dtype) * (rng.random(n, dtype=np.float32) < 0.01)).astype(dtype)
    if not os.path.exists(kind):
        raise Error(f"--data {kind!r} is neither a file nor one of {', '.join(KINDS)}")
    stored = np.load(kind, mmap_mode="r").reshape(-1) if kind.endswith(".npy") else np.fromfile(kind, dtype)
    if not stored.size:
        raise Error(f"--data {kind}: there are no values in it")
    return stored[np.arange(rank * n, rank * n + n) % stored.size].astype(dtype)
