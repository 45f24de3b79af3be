"""fp16: each value as an IEEE half, rounded to nearest even; |x| > 65504 becomes Inf, below 6e-8 zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Flat
from .base import Codec, Stream


@dataclass(frozen=True)
class FP16(Codec, name="fp16"):
    """IEEE halves, 16 bits a value. Relative error up to 2^-11 within 6e-5 .. 65504; overflows to Inf beyond."""

    kinds = ("f32", "f64")

    def omega(self, n: int) -> float:
        return 2.0**-22

    def size(self, n: int, kind: str) -> int:
        return 2 * n

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        with np.errstate(over="ignore", under="ignore"):
            wire.view("f2")[:] = x.data

    def decode_into(self, wire: Any, out: Flat) -> None:
        out.data[:] = wire.view("f2")
