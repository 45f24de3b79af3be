"""terngrad: each value as -1, 0 or 1 times the largest of its block, at random. 2 bits each."""

from __future__ import annotations

from dataclasses import dataclass

from .dithering import Dithered


@dataclass(frozen=True)
class TernGrad(Dithered, name="terngrad"):
    """sign(x) max|x| with probability |x| / max|x|, else 0, in each block (unbiased): dithering:bits=2,p=inf."""

    bits = 2
    p = "inf"
    norm = "float32"

    block: int = 512
    correlated: bool = False  # type: ignore[misc]
