"""What several test files need: every codec, every kind of number, arrays to try them on."""

from __future__ import annotations

import functools
from typing import Any

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
STORED = {"f32": np.float32, "f64": np.float64, "f16": np.uint16, "bf16": np.uint16}  # as kernels see them


def levels() -> list[str]:
    """The levels of compiled kernels that this processor can run."""
    library = launch._library()
    best = library.mc_cpu_level() if library is not None else 0
    return [f"v{level}" for level in launch.LEVELS if level <= best]


def use_level(monkeypatch: Any, level: str) -> None:
    """Kernels of this level from here to the end of a test: the variable is looked at once for each kernel."""
    monkeypatch.setenv("MPICOMP_CPU", level)
    monkeypatch.setattr(launch, "host_kernel", functools.cache(launch.host_kernel.__wrapped__))


def bits(x: np.ndarray) -> np.ndarray:
    """x as integers, so that NaN equals NaN and -0 differs from 0."""
    return np.asarray(x).reshape(-1).view(f"u{x.dtype.itemsize}")


def normal(n: int, kind: str = "f32", seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return drawn(n, seed, DTYPES[kind], scale)


def drawn(n: int, seed: int | tuple[int, ...], dtype: Any, scale: float = 1.0) -> np.ndarray:
    """Normal numbers, an array of the caller's own. Drawing them took an eighth of the time of a run on seven ranks."""
    return (_drawn(n, seed) * scale).astype(dtype)


@functools.lru_cache(64)
def _drawn(n: int, seed: int | tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def relative_error(y: np.ndarray, x: np.ndarray) -> float:
    """|y - x| / |x| in float64."""
    y, x = y.astype(np.float64), x.astype(np.float64)
    return float(np.linalg.norm(y - x) / np.linalg.norm(x))


def special(kind):
    """All exponents with telling mantissas, both signs: zeros, subnormals, infinities and NaN among them."""
    if kind in ("f16", "bf16"):
        return np.arange(65536, dtype=np.uint16)
    rng = np.random.default_rng(5)
    bits, mantissa, exponents = (32, 23, 256) if kind == "f32" else (64, 52, 2048)
    ones = (1 << mantissa) - 1
    mantissas = [0, 1, 2, 1 << mantissa - 1, ones // 3, ones - 1, ones, *rng.integers(0, ones, 9).tolist()]
    values = [s << bits - 1 | e << mantissa | m for s in (0, 1) for e in range(exponents) for m in mantissas]
    return np.array(values, f"u{bits // 8}").view(STORED[kind])
