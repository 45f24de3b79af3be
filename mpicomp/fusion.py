"""Many arrays as one: a collective over their concatenation, which is never made.

Array k begins at the next multiple of the codecs' grain, so every cut of the whole is a cut of one array or of none, and
the wire of a range is the wires of its pieces one after the other.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from typing import Any, Iterator, Optional, Sequence

from .arrays import KINDS, Flat
from .codecs.base import Codec
from .job import Pool, Randomness, Reduction


class Fused:
    """Flat arrays of one kind at multiples of `grain` in a larger index space of n elements."""

    def __init__(self, flats: Sequence[Flat], grain: int):
        self.flats = list(flats)
        self.kind = flats[0].kind
        self.starts = []
        position = 0
        for flat in flats:
            self.starts.append(position)
            position += -(-flat.n // grain) * grain
        self.n = position

    @property
    def nbytes(self) -> int:
        return sum(flat.nbytes for flat in self.flats)

    def __str__(self) -> str:
        lengths = ",".join(str(flat.n) for flat in self.flats)
        mark = hashlib.blake2b(lengths.encode(), digest_size=6).hexdigest()
        return (
            f"{len(self.flats)} arrays of {KINDS[self.kind].label} (lengths {lengths if len(lengths) < 40 else mark})"
        )

    def pieces(self, lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
        """(array, from, to) for every array that has elements in a range of the whole."""
        for index in range(max(bisect_right(self.starts, lo) - 1, 0), len(self.flats)):
            start, n = self.starts[index], self.flats[index].n
            if start >= hi:
                return
            a, b = max(lo - start, 0), min(hi - start, n)
            if a < b:
                yield index, a, b


class FusedReduction(Reduction):
    """A Reduction of many arrays: each range is done piece by piece, straight from and into the arrays."""

    def __init__(
        self,
        codec: Codec,
        down: Codec,
        x: Fused,
        out: Fused,
        scale: float,
        randomness: Randomness,
        pool: Pool,
    ):
        super().__init__(codec, down, x.flats[0], out.flats[0], scale, randomness, pool)
        self.whole = x
        self.parts = [
            Reduction(codec, down, a, b, scale, randomness, pool, start)
            for a, b, start in zip(x.flats, out.flats, x.starts)
        ]

    def part_size(self, lo: int, hi: int) -> int:
        return sum(self.parts[k].part_size(a, b) for k, a, b in self.whole.pieces(lo, hi))

    def sum_size(self, lo: int, hi: int) -> int:
        return sum(self.parts[k].sum_size(a, b) for k, a, b in self.whole.pieces(lo, hi))

    def write_part(self, lo: int, hi: int, wire: Any) -> None:
        at = 0
        for k, a, b in self.whole.pieces(lo, hi):
            end = at + self.parts[k].part_size(a, b)
            self.parts[k].write_part(a, b, wire[at:end])
            at = end

    def write_sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        at = up = 0
        for k, a, b in self.whole.pieces(lo, hi):
            end, up_end = at + self.parts[k].sum_size(a, b), up + self.parts[k].part_size(a, b)
            self.parts[k].write_sum(a, b, [w[up:up_end] for w in wires], position, wire[at:end])
            at, up = end, up_end

    def decode(self, wire: Any, lo: int, hi: int) -> None:
        at = 0
        for k, a, b in self.whole.pieces(lo, hi):
            end = at + self.parts[k].sum_size(a, b)
            self.parts[k].decode(wire[at:end], a, b)
            at = end

    def copy(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part.copy()
