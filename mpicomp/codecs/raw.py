"""raw: the values as they are, little-endian, nothing added. Exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arrays import KINDS, Flat
from .base import Codec, Stream, accumulate


@dataclass(frozen=True)
class Raw(Codec, name="raw"):
    """The values as they are; the error is that of a sum in the accumulator's precision."""

    unbiased = True

    def omega(self, n: int) -> float:
        return 0.0

    def size(self, n: int, kind: str) -> int:
        return n * KINDS[kind].storage.itemsize

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        wire[:] = x.data.view("u1")

    def decode_into(self, wire: Any, out: Flat) -> None:
        out.data.view("u1")[:] = wire

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        accumulate(Flat(wire.view(KINDS[kind].storage), kind), acc, weight)
