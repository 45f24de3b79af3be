"""fp16: each value as an IEEE half, rounded to nearest even; |x| > 65504 becomes Inf, below 6e-8 zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import launch
from ..arrays import Flat
from .base import Codec, Stream, accumulate


@dataclass(frozen=True)
class FP16(Codec, name="fp16"):
    """IEEE halves, 16 bits a value. Relative error up to 2^-11 within 6e-5 .. 65504; overflows to Inf beyond."""

    kinds = ("f32", "f64")

    def omega(self, n: int) -> float:
        """For values of magnitude 2^-14 (6.1e-5) to 65504. The error of smaller ones is up to 2^-25, whatever they are."""
        return 2.0**-22

    def size(self, n: int, kind: str) -> int:
        return 2 * n

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        if x.kind == "f32":
            launch.kernel("round_f16", x.data)(x.data, x.n, wire.view("u2"))
            return
        with np.errstate(over="ignore", under="ignore"):
            wire.view("f2")[:] = x.data

    def decode_into(self, wire: Any, out: Flat) -> None:
        if out.kind == "f32":
            launch.kernel("lift_f16", wire)(wire.view("u2"), out.n, out.data)
        else:
            out.data[:] = wire.view("f2")

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        if kind == "f32":
            accumulate(Flat(wire.view("u2"), "f16"), acc, weight)
        else:
            super().add_into(wire, acc, kind, weight)
