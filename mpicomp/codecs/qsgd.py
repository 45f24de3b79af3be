"""qsgd: dithering with the Euclidean norm, under its usual name."""

from __future__ import annotations

from dataclasses import dataclass

from .dithering import Dithered


@dataclass(frozen=True)
class QSGD(Dithered, name="qsgd"):
    """Levels j/u of the Euclidean norm of each block (a bucket), u = 2^(bits-1) - 1 (unbiased): dithering:p=2."""

    p = 2
    norm = "float32"

    bits: int = 4
    block: int = 512
    correlated: bool = False  # type: ignore[misc]
