"""Sums of plain arrays, and the 16-bit kinds, as in kernels/half.h and kernels/cpu/basic.c.

float16 and bfloat16 are arrays of any 2-byte type, taken as bits. They are summed in float32.
"""

from __future__ import annotations

import numpy as np


def widen_f16(x: np.ndarray) -> np.ndarray:
    return x.view(np.float16).astype(np.float32)


def widen_bf16(x: np.ndarray) -> np.ndarray:
    return (x.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_f32(acc: np.ndarray, n: int, out: np.ndarray) -> None:
    """A copy: sums are stored as they are."""
    out[:n] = acc[:n]


round_f64 = round_f32


def round_f16(acc: np.ndarray, n: int, out: np.ndarray) -> None:
    """float32 to float16: to nearest even, too large to Inf, NaN to the one quiet NaN."""
    with np.errstate(over="ignore", under="ignore"):
        bits = acc[:n].astype(np.float16).view(np.uint16)
    out[:n].view(np.uint16)[:] = np.where(np.isnan(acc[:n]), np.uint16(0x7E00), bits)


def round_bf16(acc: np.ndarray, n: int, out: np.ndarray) -> None:
    """float32 to bfloat16: to nearest even, too large to Inf, NaN to the one quiet NaN."""
    u = acc[:n].view(np.uint32)
    bits = u + np.uint32(0x7FFF) + (u >> np.uint32(16) & np.uint32(1)) >> np.uint32(16)
    out[:n].view(np.uint16)[:] = np.where(np.isnan(acc[:n]), np.uint32(0x7FC0), bits)


def lift_f32(x: np.ndarray, n: int, acc: np.ndarray) -> None:
    acc[:n] = x[:n]


lift_f64 = lift_f32


def lift_f16(x: np.ndarray, n: int, acc: np.ndarray) -> None:
    acc[:n] = widen_f16(x[:n])


def lift_bf16(x: np.ndarray, n: int, acc: np.ndarray) -> None:
    acc[:n] = widen_bf16(x[:n])


def add_values(values: np.ndarray, acc: np.ndarray, weight: float) -> None:
    """acc += weight * values, each product and each sum rounded to acc's type."""
    with np.errstate(all="ignore"):
        acc += acc.dtype.type(weight) * values


def scale_add_f32(x: np.ndarray, n: int, acc: np.ndarray, weight: float) -> None:
    add_values(x[:n], acc[:n], weight)


scale_add_f64 = scale_add_f32


def scale_add_f16(x: np.ndarray, n: int, acc: np.ndarray, weight: float) -> None:
    add_values(widen_f16(x[:n]), acc[:n], weight)


def scale_add_bf16(x: np.ndarray, n: int, acc: np.ndarray, weight: float) -> None:
    add_values(widen_bf16(x[:n]), acc[:n], weight)
