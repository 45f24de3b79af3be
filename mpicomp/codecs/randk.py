"""randk: k values of each block, drawn with a seed that all ranks share, so that no indices travel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from ..arrays import Flat
from ..errors import WireError
from .base import Codec, Stream, Terms
from .sparse import RAW, Blocks, Sparse

KEY = np.uint64((1 << 63) - 1)  # the bits of a block's last word that are its key; the other marks NaN


@dataclass(frozen=True)
class RandK(Sparse, name="randk"):
    """k values of each block at random, decoded times block/k (unbiased, omega block/k - 1).

    In a collective all ranks keep the same ones, so they are summed as they are: the sum is thinned once, not twice. A
    block that holds NaN or Inf decodes to NaN; what block/k makes too large for its type, to Inf.
    """

    unbiased = True
    shared = True

    def omega(self, n: int) -> float:
        return 1 / self.share(n) - 1

    def omegas(self, n: int) -> tuple[float, float]:
        return self.omega(n), 0.0

    def tail(self, m: int, k: int) -> int:
        return 8

    def reduce_into(self, terms: Terms, scale: float, out: Any, stream: Stream) -> None:
        self.reduce_with(RAW, terms, scale, out, stream)

    def reduce_with(self, second: Codec, terms: Terms, scale: float, out: Any, stream: Stream) -> None:
        """The kept values of all terms, summed by `second`; the wires must have kept the same ones."""
        for part in self.blocks(second, terms.n, terms.kind):
            wires, room = [part.wire(wire) for wire in terms.wires], part.wire(out)
            values = None if terms.own is None else self.select(part, terms.own, room, stream, apart=True)
            self._join(part, wires, room, terms.own is not None)
            for b, inner in enumerate(part.inners(room)):
                at = slice(b * part.stride, b * part.stride + part.inner)
                own = None if values is None else Flat(values[b * part.k : (b + 1) * part.k], terms.kind)
                kept = Terms([wire[at] for wire in wires], terms.position, own, part.k, terms.kind)
                second.reduce_into(kept, scale, inner, stream._replace(first=stream.first + part.lo + b * part.m))

    def _join(self, part: Blocks, wires: list[Any], room: Any, own: bool) -> None:
        """The blocks' keys, and NaN where one of the terms has it."""
        words = [_words(part, wire) for wire in ([room] if own else []) + wires]
        if any(((word ^ words[0]) & KEY).any() for word in words[1:]):
            raise WireError(f"{self}: wires that kept different values cannot be summed; they need one seed")
        if not own:
            room[:] = 0
        tails = room.reshape(part.number, part.stride)[:, part.inner : part.inner + 8]
        tails[:] = reduce(or_, words).view(np.uint8).reshape(part.number, 8)


def _words(part: Blocks, wire: Any) -> Any:
    tails = wire.reshape(part.number, part.stride)[:, part.inner : part.inner + 8]
    return tails.copy().view("<u8").reshape(part.number)
