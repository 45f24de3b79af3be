"""Many arrays as one: a collective over their concatenation, which is never made.

Array k begins at the next multiple of the codecs' grain, so every cut of the whole is a cut of one array or of none, and
the wire of a range is the wires of its pieces one after the other. Small arrays may be packed into one: a call of a kernel
costs as much time as copying 100 KB.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from contextlib import nullcontext
from typing import Any, Callable, Iterator, Optional, Sequence

from . import launch
from .arrays import KINDS, Flat, zeros
from .codecs.base import Codec
from .codecs.blocked import Blocked
from .job import Pool, Randomness, Reduction

SMALL, PACK = 1 << 16, 4 << 20  # bytes of an array that is packed, of all that are


class Fused:
    """Flat arrays of one kind at multiples of `grain` in a larger index space of n elements.

    `arrays` are what was given, `flats` what travels: the same or, where small ones are packed, their pack and the others.
    """

    def __init__(self, arrays: Sequence[Flat], grain: int, pack: bool = False, names: Sequence[str] = ()):
        """`names`: what the ranks must agree upon besides lengths."""
        self.arrays = list(arrays)
        self.names = names
        self.kind = arrays[0].kind
        self.flats = self.arrays
        self._packed: list[tuple[Flat, Flat]] = []  # an array, and its place in the pack
        if pack:
            self._pack(grain)
        self.starts, self.n = _starts(self.flats, grain)

    def _pack(self, grain: int) -> None:
        """Unless that would add more than a sixteenth to what travels: a pack is zero where no array is."""
        small: list[Flat] = []
        room = PACK
        for flat in self.arrays:
            if flat.nbytes <= min(SMALL, room):
                small.append(flat)
                room -= flat.nbytes
        starts, n = _starts(small, grain)
        added = n - sum(flat.n for flat in small)
        if len(small) > 1 and 16 * added <= sum(flat.n for flat in self.arrays):
            pack = Flat(zeros(n, KINDS[self.kind].storage, small[0].data), self.kind)
            self._packed = [(flat, pack[start : start + flat.n]) for flat, start in zip(small, starts)]
            chosen = set(map(id, small))
            self.flats = [pack, *(flat for flat in self.arrays if id(flat) not in chosen)]

    def gather(self) -> None:
        """Before the collective: what the pack is made of."""
        for flat, place in self._packed:
            place.data[:] = flat.data

    def scatter(self) -> None:
        """After it."""
        for flat, place in self._packed:
            flat.data[:] = place.data

    @property
    def data(self) -> Any:
        """One of the arrays: it tells where they are."""
        return self.arrays[0].data

    @property
    def nbytes(self) -> int:
        return sum(flat.nbytes for flat in self.arrays)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(flat.shape for flat in self.flats)

    def __str__(self) -> str:
        known = {"lengths": map(str, (flat.n for flat in self.arrays)), "names": self.names}
        told = ", ".join(f"{what} {_short(','.join(words))}" for what, words in known.items() if words)
        return f"{len(self.arrays)} arrays of {KINDS[self.kind].label} ({told})"

    def pieces(self, lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
        """(array, from, to) for every array that has elements in a range of the whole."""
        for index in range(max(bisect_right(self.starts, lo) - 1, 0), len(self.flats)):
            start, n = self.starts[index], self.flats[index].n
            if start >= hi:
                return
            a, b = max(lo - start, 0), min(hi - start, n)
            if a < b:
                yield index, a, b


def _short(text: str) -> str:
    """The text, or a mark of a long one."""
    return text if len(text) < 40 else hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _starts(flats: Sequence[Flat], grain: int) -> tuple[list[int], int]:
    """Where each begins, and how many elements there are in all."""
    starts, position = [], 0
    for flat in flats:
        starts.append(position)
        position += -(-flat.n // grain) * grain
    return starts, position


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
        makes: Optional[Sequence[Callable[..., Reduction]]] = None,
    ):
        """`makes`: what makes each array's job, where that is not a Reduction."""
        super().__init__(codec, down, x.flats[0], out.flats[0], scale, randomness, pool)
        self.whole, self.result, self.makes = x, out, makes
        self._together = (
            launch.together if makes is None and codec == down and isinstance(codec, Blocked) else nullcontext
        )
        self.parts = [
            make(codec, down, a, b, scale, randomness, pool, start)
            for make, a, b, start in zip(makes or [Reduction] * len(x.flats), x.flats, out.flats, x.starts)
        ]

    def part_size(self, lo: int, hi: int) -> int:
        return sum(self.parts[k].part_size(a, b) for k, a, b in self.whole.pieces(lo, hi))

    def sum_size(self, lo: int, hi: int) -> int:
        return sum(self.parts[k].sum_size(a, b) for k, a, b in self.whole.pieces(lo, hi))

    def part_length(self, room: Any, lo: int, hi: int) -> int:
        return sum(piece.size for _, _, _, (piece,) in self._walk(lo, hi, [room]))

    def sum_length(self, room: Any, lo: int, hi: int) -> int:
        at = 0
        for part, a, b in self._pieces(lo, hi):
            at += part.sum_length(room[at:], a, b)
        return at

    def write_part(self, lo: int, hi: int, wire: Any) -> None:
        with self._together():
            for part, a, b in self._pieces(lo, hi):
                part.write_part(a, b, wire[: part.part_size(a, b)])
                wire = wire[part.part_length(wire, a, b) :]

    def write_sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        with self._together():
            for part, a, b, came in self._walk(lo, hi, wires):
                part.write_sum(a, b, came, position, wire[: part.sum_size(a, b)])
                wire = wire[part.sum_length(wire, a, b) :]

    def write_partial(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        with self._together():
            for part, a, b, came in self._walk(lo, hi, wires):
                part.write_partial(a, b, came, position, wire[: part.part_size(a, b)])
                wire = wire[part.part_length(wire, a, b) :]

    def decode(self, wire: Any, lo: int, hi: int) -> None:
        with self._together():
            for part, a, b in self._pieces(lo, hi):
                length = part.sum_length(wire, a, b)
                part.decode(wire[:length], a, b)
                wire = wire[length:]

    def total(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int] = None) -> None:
        for part, a, b, came in self._walk(lo, hi, wires):
            part.total(a, b, came, position)

    def copy(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part.copy()

    def plain(self, lo: int, hi: int) -> list[Any]:
        return [plain for part, a, b in self._pieces(lo, hi) for plain in part.plain(a, b)]

    def plain_out(self, lo: int, hi: int) -> list[Any]:
        return [plain for part, a, b in self._pieces(lo, hi) for plain in part.plain_out(a, b)]

    def plain_total(self, lo: int, hi: int, others: Sequence[list[Any]], position: int, last: bool) -> None:
        for index, (part, a, b) in enumerate(self._pieces(lo, hi)):
            part.plain_total(a, b, [[plains[index]] for plains in others], position, last)

    def among(self, rank: int, size: int) -> FusedReduction:
        randomness = self.randomness._replace(rank=rank, size=size)
        args = (self.codec, self.down, self.result, self.result, self.scale, randomness, self.pool)
        return FusedReduction(*args, makes=self.makes)

    def _pieces(self, lo: int, hi: int) -> Iterator[tuple[Reduction, int, int]]:
        """(array's job, from, to) for all that is in a range."""
        return ((self.parts[k], a, b) for k, a, b in self.whole.pieces(lo, hi))

    def _walk(self, lo: int, hi: int, wires: Sequence[Any]) -> Iterator[tuple[Reduction, int, int, list[Any]]]:
        """The same, with what each of these wires of parts has for it."""
        for part, a, b in self._pieces(lo, hi):
            came = [wire[: part.part_length(wire, a, b)] for wire in wires]
            yield part, a, b, came
            wires = [wire[piece.size :] for wire, piece in zip(wires, came)]
