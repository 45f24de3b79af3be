"""What several test files need: every codec, every kind of number, arrays to try them on."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from mpicomp import launch

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
BITS = {"f32": np.uint32, "f64": np.uint64, "f16": np.uint16, "bf16": np.uint16}
SPECS = [
    "raw",
    "fp16",
    "bf16",
    "natural",
    "natural:bits=8",
    "natural:rounding=nearest",
    "natural:correlated=true",
    "natural-dithering",
    "natural-dithering:bits=3,block=64,p=inf,norm=natural",
    "dithering:bits=8,p=1",
    "dithering:block=128,correlated=true",
    "qsgd",
    "terngrad",
    "sign",
    "sign:block=64",
]


def levels() -> list[str]:
    """The levels of compiled kernels that this processor can run."""
    library = launch._library()
    best = library.mc_cpu_level() if library is not None else 0
    return [f"v{level}" for level in launch.LEVELS if level <= best]


def bits(x: np.ndarray) -> np.ndarray:
    """x as integers, so that NaN equals NaN and -0 differs from 0."""
    return np.asarray(x).reshape(-1).view(f"u{x.dtype.itemsize}")


def normal(n: int, kind: str = "f32", seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(n) * scale).astype(DTYPES[kind])


def relative_error(y: np.ndarray, x: np.ndarray) -> float:
    """|y - x| / |x| in float64."""
    y, x = y.astype(np.float64), x.astype(np.float64)
    return float(np.linalg.norm(y - x) / np.linalg.norm(x))
