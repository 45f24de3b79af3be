"""Many arrays as one: a collective over their concatenation, which is never made.

Array k begins at the next multiple of the codecs' grain, so every cut of the whole is a cut of one array or of none, and
the wire of a range is the wires of its pieces one after the other. Small arrays may be packed into one: a call of a kernel
costs as much time as copying 100 KB.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import lru_cache
from typing import Any, Callable, Iterator, Optional, Sequence

from .arrays import KINDS, Flat, address, zeros
from .codecs.base import Codec
from .codecs.blocked import Blocked, Piece
from .job import DOWN, PARTIAL, UP, Pool, Randomness, Reduction

SMALL, PACK = 1 << 16, 4 << 20  # bytes of an array that is packed, of all that are


class Layout:
    """Where arrays of some lengths are in the whole, and which of them are packed. Kept: lists come again and again."""

    def __init__(self, lengths: Sequence[int], itemsize: int, grain: int, pack: bool):
        """A pack is zero where no array is: there is none if that would add more than a sixteenth to what travels."""
        small: list[int] = []
        room = PACK if pack else -1
        for index, n in enumerate(lengths):
            if n * itemsize <= min(SMALL, room):
                small.append(index)
                room -= n * itemsize
        starts, self.packs = _starts([lengths[index] for index in small], grain)
        added = self.packs - sum(lengths[index] for index in small)
        if len(small) < 2 or 16 * added > sum(lengths):
            small, self.packs = [], 0
        self.packed = [(index, start, start + lengths[index]) for index, start in zip(small, starts)]
        chosen = set(small)
        self.others = [index for index in range(len(lengths)) if index not in chosen]
        self.lengths = [self.packs] * bool(small) + [lengths[index] for index in self.others]
        self.starts, self.n = _starts(self.lengths, grain)


layout = lru_cache(maxsize=64)(Layout)


@lru_cache(maxsize=1024)
def _pieces(layout: Layout, lo: int, hi: int) -> list[tuple[int, int, int]]:
    """(array, from, to) for every array that has elements in a range of the whole."""
    found = []
    for index in range(max(bisect_right(layout.starts, lo) - 1, 0), len(layout.starts)):
        start, n = layout.starts[index], layout.lengths[index]
        if start >= hi:
            break
        a, b = max(lo - start, 0), min(hi - start, n)
        if a < b:
            found.append((index, a, b))
    return found


@lru_cache(maxsize=1024)
def _size(layout: Layout, codec: Codec, kind: str, lo: int, hi: int) -> int:
    """The most bytes of the wires of a range, one after the other."""
    return sum(codec.size(b - a, kind) for _, a, b in _pieces(layout, lo, hi))


@lru_cache(maxsize=1024)
def _in_wires(layout: Layout, codec: Codec, kind: str, lo: int, hi: int) -> list[Piece]:
    """The same, with places in memory and in wires of a range."""
    found, wire, itemsize = [], 0, KINDS[kind].storage.itemsize
    for k, a, b in _pieces(layout, lo, hi):
        found.append(Piece(k, a * itemsize, b - a, wire, layout.starts[k] + a))
        wire += codec.size(b - a, kind)
    return found


class Fused:
    """Flat arrays of one kind at multiples of `grain` in a larger index space of n elements.

    `arrays` are what was given, `flats` what travels: the same or, where small ones are packed, their pack and the others.
    """

    def __init__(self, arrays: Sequence[Flat], grain: int, pack: bool = False, names: Sequence[str] = ()):
        """`names`: what the ranks must agree upon besides lengths."""
        self.arrays = self.flats = list(arrays)
        self.names = tuple(names)
        self.kind, self.lengths = arrays[0].kind, tuple([flat.n for flat in arrays])
        self.layout = layout(self.lengths, KINDS[self.kind].storage.itemsize, grain, pack)
        self.n = self.layout.n
        if self.layout.packed:
            self._pack = zeros(self.layout.packs, KINDS[self.kind].storage, self.data)
            self.flats = [Flat(self._pack, self.kind), *(self.arrays[index] for index in self.layout.others)]

    def gather(self) -> None:
        """Before the collective: what the pack is made of."""
        for index, lo, hi in self.layout.packed:
            self._pack[lo:hi] = self.arrays[index].data

    def scatter(self) -> None:
        """After it."""
        for index, lo, hi in self.layout.packed:
            self.arrays[index].data[:] = self._pack[lo:hi]

    @property
    def data(self) -> Any:
        """One of the arrays: it tells where they are."""
        return self.arrays[0].data

    @property
    def nbytes(self) -> int:
        return sum(self.lengths) * KINDS[self.kind].storage.itemsize

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(flat.shape for flat in self.flats)

    @property
    def starts(self) -> list[int]:
        return self.layout.starts

    def __str__(self) -> str:
        return _told(self.kind, self.lengths, self.names)


@lru_cache(maxsize=64)
def _told(kind: str, lengths: tuple[int, ...], names: tuple[str, ...]) -> str:
    known = {"lengths": map(str, lengths), "names": names}
    told = ", ".join(f"{what} {_short(','.join(words))}" for what, words in known.items() if words)
    return f"{len(lengths)} arrays of {KINDS[kind].label} ({told})"


def _short(text: str) -> str:
    """The text, or a mark of a long one."""
    return text if len(text) < 40 else hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _starts(lengths: Sequence[int], grain: int) -> tuple[list[int], int]:
    """Where each begins, and how many elements there are in all."""
    starts, position = [], 0
    for n in lengths:
        starts.append(position)
        position += -(-n // grain) * grain
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
        self._quick: Any = None  # the codec, if its kernels can be called in a row
        if makes is None and codec == down and isinstance(codec, Blocked) and codec.in_a_row(self.kind, x.data):
            self._quick = codec
            self._xs, self._outs = ([address(flat.data) for flat in fused.flats] for fused in (x, out))
        self.parts = [
            make(codec, down, a, b, scale, randomness, pool, start)
            for make, a, b, start in zip(makes or [Reduction] * len(x.flats), x.flats, out.flats, x.starts)
        ]

    def part_size(self, lo: int, hi: int) -> int:
        return _size(self.whole.layout, self.codec, self.kind, lo, hi)

    def sum_size(self, lo: int, hi: int) -> int:
        return _size(self.whole.layout, self.down, self.kind, lo, hi)

    def part_length(self, room: Any, lo: int, hi: int) -> int:
        return sum(piece.size for _, _, _, (piece,) in self._walk(lo, hi, [room]))

    def sum_length(self, room: Any, lo: int, hi: int) -> int:
        at = 0
        for part, a, b in self._pieces(lo, hi):
            at += part.sum_length(room[at:], a, b)
        return at

    def write_part(self, lo: int, hi: int, wire: Any) -> None:
        if self._quick:
            stream = self._at(UP, 0)
            return self._quick.encode_pieces(self._in_wires(lo, hi), self.kind, self._xs, address(wire), stream)
        for part, a, b in self._pieces(lo, hi):
            part.write_part(a, b, wire[: part.part_size(a, b)])
            wire = wire[part.part_length(wire, a, b) :]

    def write_sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        if self._quick:
            return self._reduce(lo, hi, wires, position, self.scale, wire, DOWN)
        for part, a, b, came in self._walk(lo, hi, wires):
            part.write_sum(a, b, came, position, wire[: part.sum_size(a, b)])
            wire = wire[part.sum_length(wire, a, b) :]

    def write_partial(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        if self._quick:
            return self._reduce(lo, hi, wires, position, 1.0, wire, PARTIAL)
        for part, a, b, came in self._walk(lo, hi, wires):
            part.write_partial(a, b, came, position, wire[: part.part_size(a, b)])
            wire = wire[part.part_length(wire, a, b) :]

    def decode(self, wire: Any, lo: int, hi: int) -> None:
        if self._quick:
            return self._quick.decode_pieces(self._in_wires(lo, hi), self.kind, address(wire), self._outs)
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

    def _reduce(
        self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], scale: float, wire: Any, stage: int
    ) -> None:
        came, stream = [address(each) for each in wires], self._at(stage, 0)
        pieces = self._in_wires(lo, hi)
        self._quick.reduce_pieces(pieces, self.kind, came, position, self._xs, scale, address(wire), stream)

    def _in_wires(self, lo: int, hi: int) -> list[Piece]:
        return _in_wires(self.whole.layout, self.codec, self.kind, lo, hi)

    def _pieces(self, lo: int, hi: int) -> Iterator[tuple[Reduction, int, int]]:
        """(array's job, from, to) for all that is in a range."""
        return ((self.parts[k], a, b) for k, a, b in _pieces(self.whole.layout, lo, hi))

    def _walk(self, lo: int, hi: int, wires: Sequence[Any]) -> Iterator[tuple[Reduction, int, int, list[Any]]]:
        """The same, with what each of these wires of parts has for it."""
        for part, a, b in self._pieces(lo, hi):
            came = [wire[: part.part_length(wire, a, b)] for wire in wires]
            yield part, a, b, came
            wires = [wire[piece.size :] for wire, piece in zip(wires, came)]
