"""bf16: each value as a bfloat16, the upper half of a float32, rounded to nearest even."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import launch
from ..arrays import Flat
from .base import Codec, Stream, accumulate


@dataclass(frozen=True)
class BF16(Codec, name="bf16"):
    """bfloat16, 16 bits a value: the range of float32 (what rounds beyond becomes Inf), relative error up to 2^-8."""

    kinds = ("f32",)

    def omega(self, n: int) -> float:
        return 2.0**-16

    def size(self, n: int, kind: str) -> int:
        return 2 * n

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        launch.kernel("round_bf16", x.data)(x.data, x.n, wire.view("u2"))

    def decode_into(self, wire: Any, out: Flat) -> None:
        launch.kernel("lift_bf16", wire)(wire.view("u2"), out.n, out.data)

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        accumulate(Flat(wire.view("u2"), "bf16"), acc, weight)
