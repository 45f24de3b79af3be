"""Chains: `topk:ratio=0.01|natural` sends what the first codec keeps as the second one writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from ..arrays import Flat
from ..errors import CodecError
from .base import Codec, Stream, Terms
from .randk import RandK
from .raw import Raw
from .sparse import Sparse


@dataclass(frozen=True)
class Chain(Codec):
    """A sparse codec, and a second one for the values that it keeps."""

    first: Sparse
    second: Codec

    dense = False

    def check(self) -> None:
        reason = why_not(self.first, self.second)
        if reason:
            raise CodecError(f"{self.first}|{self.second} makes no sense: {reason}")

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"

    @property
    def kinds(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(kind for kind in self.first.kinds if kind in self.second.kinds)

    @property
    def unbiased(self) -> bool:  # type: ignore[override]
        return self.first.unbiased and self.second.unbiased

    @property
    def shared(self) -> bool:  # type: ignore[override]
        return self.first.shared

    @property
    def correlated(self) -> bool:  # type: ignore[override]
        return self.second.correlated

    @property
    def grain(self) -> int:
        return self.first.grain

    def omega(self, n: int) -> float:
        """Of two unbiased codecs (w1 + 1)(w2 + 1) - 1. topk drops what is orthogonal to what it keeps, so its error and
        the second's on the kept part add; the errors of a biased second codec may point where the first's do."""
        w1, w2 = self._omegas(n)
        if self.unbiased:
            return (w1 + 1) * (w2 + 1) - 1
        if self.first.unbiased:
            return ((w2 * (w1 + 1)) ** 0.5 + w1**0.5) ** 2
        return max(w1 + (1 - w1) * w2, w2)

    def noise(self, n: int) -> float:
        kept = self.first.kept(min(n, self.first.block)) if n else 0
        return (self.first.noise(n) + 1) * (self.second.noise(kept) + 1) - 1

    def omegas(self, n: int) -> tuple[float, float]:
        return self._omegas(n) if self.shared else (0.0, self.omega(n))

    def _omegas(self, n: int) -> tuple[float, float]:
        return self.first.omega(n), self.second.omega(self.first.kept(min(n, self.first.block))) if n else 0.0

    def size(self, n: int, kind: str) -> int:
        return self.first.size_with(self.second, n, kind)

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        self.first.encode_with(self.second, x, wire, stream)

    def decode_into(self, wire: Any, out: Flat) -> None:
        self.first.decode_with(self.second, wire, out)

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        self.first.add_with(self.second, wire, acc, kind, weight)

    def reduce_into(self, terms: Terms, scale: float, out: Any, stream: Stream) -> None:
        if isinstance(self.first, RandK):
            self.first.reduce_with(self.second, terms, scale, out, stream)
        else:
            super().reduce_into(terms, scale, out, stream)


def why_not(first: Codec, second: Codec) -> str:
    """Why second cannot come after first; nothing if it can."""
    if isinstance(first, Chain):
        return f"{first.second} keeps no values that {second} could encode; two codecs are the most"
    if not isinstance(first, Sparse):
        return f"{first.name} changes every value into bits of its own; only topk and randk leave values to encode"
    if isinstance(second, (Sparse, Chain)):
        return f"{second} would drop values that {first} chose to keep; take a smaller ratio instead"
    if isinstance(second, Raw):
        return f"{first.name} sends its values raw already"
    if second.name == "lowrank":
        return "the kept values are no matrix"
    if second.name == "zstd":
        return "zstd codes what a whole chain writes, not its blocks: that spec is of Zstd(Chain(first, second))"
    if first.block % second.grain:
        return f"block={first.block} is no multiple of the {second.grain} values that {second} takes together"
    return ""


def chain(codecs: Sequence[Codec]) -> Codec:
    """One codec from several, first applied first."""
    whole = codecs[0]
    for each in codecs[1:]:
        reason = why_not(whole, each)
        if reason:
            raise CodecError(f"{whole}|{each} makes no sense: {reason}")
        whole = Chain(whole, each)  # type: ignore[arg-type]
    return whole
