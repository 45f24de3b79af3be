"""What a schedule asks for: encode, sum and decode ranges of one collective's array."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from .arrays import KINDS, Flat, cupy_module, empty, is_cupy, overlap
from .codecs.base import Codec, Stream, Terms, as_kind
from .codecs.raw import Raw
from .reference.rng import stream_key

UP, DOWN, SHUFFLE, PARTIAL, SHARED = 0, 1, 2, 3, 1 << 32  # stages of a collective; each has random numbers of its own

# What the verbs of a job that do arithmetic are: for those who cost or time them
WORK = {"encode": "encode", "write_part": "encode", "decode": "decode"}
WORK.update(dict.fromkeys(("reduce", "write_sum", "partial", "write_partial", "total", "plain_total"), "reduce"))


def amount(verb: str, arguments: Sequence[Any]) -> int:
    """How many values such a verb reads for its arguments."""
    if verb == "decode":
        return arguments[-1] - arguments[-2]
    terms = len(arguments[2]) + 1 if WORK[verb] == "reduce" else 1
    return (arguments[1] - arguments[0]) * terms


class Pool:
    """Byte buffers for reuse: fresh memory costs a page fault for each 4 KB. Keeps at most `limit` bytes.

    With an `arena`, those that are to be lent come from memory that peers see.
    """

    def __init__(self, limit: int = 64 << 20):
        self.arena: Any = None
        self._free: dict[Any, list[Any]] = {}
        self._kept = 0
        self._limit = limit

    def get(self, nbytes: int, like: Any = None, lend: bool = False) -> Any:
        if lend and self.arena is not None and not is_cupy(like):
            buffer = self.arena.get(nbytes)
            if buffer is not None:
                return buffer
        size = -(-nbytes // 4096) * 4096
        free = self._free.get((size, _kept_for(like)))
        if free:
            self._kept -= size
            slab = free.pop()
        else:
            slab = self.new(size, like)
        return slab[:nbytes]

    def put(self, buffer: Any) -> None:
        if self.arena is not None and not is_cupy(buffer) and self.arena.put(buffer):
            return
        slab = buffer.base
        if slab is not None and self._kept + slab.size <= self._limit:
            self._kept += slab.size
            self._free.setdefault((slab.size, _kept_for(slab)), []).append(slab)

    def new(self, size: int, like: Any) -> Any:
        return empty(size, np.uint8, like)

    def clear(self) -> None:
        """Give back what is kept."""
        self._free.clear()
        self._kept = 0


def _kept_for(like: Any) -> Any:
    """What a buffer may be used again for: memory of a GPU only on the stream that may still have work with it."""
    if not is_cupy(like):
        return None
    return like.device.id, cupy_module().cuda.get_current_stream().ptr


class Randomness(NamedTuple):
    """Where the random numbers of a call come from."""

    seed: int
    call: int
    rank: int
    size: int

    def stream(self, codec: Codec, stage: int, first: int) -> Stream:
        """The stream for elements from `first` on."""
        key, _, offset, shared = _stream(self, codec, stage)
        return Stream(key, first, offset, shared)


@lru_cache(maxsize=256)  # each segment, and each of many arrays, asks for the same; calls under way take turns
def _stream(of: Randomness, codec: Codec, stage: int) -> Stream:
    """Correlated codecs share one stream, shifted by the rank."""
    later = stage if stage > PARTIAL else 0  # a collective may number its starts by stages
    shared = stream_key(of.seed, of.call, 0, SHARED + later) if codec.shared else 0
    if not codec.correlated or stage != UP:
        return Stream(stream_key(of.seed, of.call, of.rank, stage), 0, 0, shared)
    shuffle = np.random.Generator(np.random.Philox(stream_key(of.seed, of.call, 0, SHUFFLE))).permutation(of.size)
    return Stream(stream_key(of.seed, of.call, 0, stage), 0, (int(shuffle[of.rank]) << 32) // of.size, shared)


class Reduction:
    """out = scale * the sum of all ranks' x, up-link and down-link codec given. x and out may be the same memory.

    `origin` is where x begins among the elements of a larger whole, for the random numbers.
    """

    def __init__(
        self,
        codec: Codec,
        down: Codec,
        x: Flat,
        out: Flat,
        scale: float,
        randomness: Randomness,
        pool: Pool,
        origin: int = 0,
    ):
        self.codec, self.down = codec, down
        self.x, self.out, self.scale = x, out, scale
        self.kind = x.kind
        self.randomness = randomness
        self.pool = pool
        self.origin = origin

    # What schedules call

    def space(self, nbytes: int) -> Any:
        """A buffer for plain values."""
        return self.pool.get(nbytes, self.x.data)

    def part_space(self, nbytes: int) -> Any:
        """A buffer for wires of parts."""
        return self.pool.get(nbytes, self.codec.place(self.x.data))

    def sum_space(self, nbytes: int) -> Any:
        """A buffer for wires of sums."""
        return self.pool.get(nbytes, self.down.place(self.x.data))

    def room(self, lo: int, hi: int) -> Any:
        """A buffer for somebody's part, or for a partial sum, of a range."""
        return self.part_space(self.part_size(lo, hi))

    def sum_room(self, lo: int, hi: int) -> Any:
        """A buffer for the sum of a range."""
        return self.sum_space(self.sum_size(lo, hi))

    def release(self, buffers: Iterable[Any]) -> None:
        for buffer in buffers:
            self.pool.put(buffer)

    def encode(self, lo: int, hi: int) -> Any:
        """This rank's part of a range."""
        wire = self.pool.get(self.part_size(lo, hi), self.codec.place(self.x.data), lend=True)
        self.write_part(lo, hi, wire)
        return wire[: self.part_length(wire, lo, hi)]

    def reduce(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int]) -> Any:
        """The encoded sum of a range: the wires and, at `position` among them, this rank's own values."""
        wire = self.pool.get(self.sum_size(lo, hi), self.down.place(self.x.data), lend=True)
        self.write_sum(lo, hi, wires, position, wire)
        return wire[: self.sum_length(wire, lo, hi)]

    def partial(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int]) -> Any:
        """As reduce, for a sum to which others will add. A rank may do this once for each element."""
        wire = self.room(lo, hi)
        self.write_partial(lo, hi, wires, position, wire)
        return wire[: self.part_length(wire, lo, hi)]

    def decode(self, wire: Any, lo: int, hi: int) -> None:
        """A sum into the result."""
        self.down.decode_into(wire, self.out[lo:hi])

    def total(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int] = None) -> None:
        """As reduce, but into the result itself, not encoded."""
        terms, out = self._terms(lo, hi, wires, position), self.out[lo:hi]
        if KINDS[self.kind].accumulator != out.data.dtype or (terms.own is not None and overlap(terms.own, out)):
            self._store(lo, hi, self.codec.total(terms, self.scale))
        else:
            self.codec.total(terms, self.scale, out.data)

    def copy(self) -> Iterator[Any]:
        """The whole collective where this rank is alone: exact."""
        if self.x is not self.out:
            self.out.data[:] = self.x.data
        yield ()

    # The work itself, into buffers that are there

    def part_size(self, lo: int, hi: int) -> int:
        """The most bytes of a part."""
        return self.codec.size(hi - lo, self.kind)

    def sum_size(self, lo: int, hi: int) -> int:
        return self.down.size(hi - lo, self.kind)

    def part_length(self, room: Any, lo: int, hi: int) -> int:
        """The bytes of the part that is at the beginning of `room`."""
        return self.codec.length(room, hi - lo, self.kind)

    def sum_length(self, room: Any, lo: int, hi: int) -> int:
        return self.down.length(room, hi - lo, self.kind)

    def write_part(self, lo: int, hi: int, wire: Any) -> None:
        self.codec.encode_into(self.x[lo:hi], wire, self._at(UP, lo))

    def write_sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        terms, stream = self._terms(lo, hi, wires, position), self._at(DOWN, lo)
        if self.codec == self.down:
            self.down.reduce_into(terms, self.scale, wire, stream)
        else:
            self.down.encode_into(as_kind(self.codec.total(terms, self.scale), self.kind), wire, stream)

    def write_partial(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        """In the up-link codec, and not scaled."""
        self.codec.reduce_into(self._terms(lo, hi, wires, position), 1.0, wire, self._at(PARTIAL, lo))

    # The exact part of a collective in two levels

    def plain(self, lo: int, hi: int) -> list[Any]:
        """This rank's values of a range as bytes."""
        return [self.x[lo:hi].data.view("u1")]

    def plain_out(self, lo: int, hi: int) -> list[Any]:
        """The memory of the result of a range as bytes."""
        return [self.out[lo:hi].data.view("u1")]

    def plain_total(self, lo: int, hi: int, others: Sequence[list[Any]], position: int, last: bool) -> None:
        """The exact sum of a range into the result's memory: scaled if it is the last, else to be summed further."""
        terms = self._terms(lo, hi, [plain[0] for plain in others], position)
        self._store(lo, hi, Raw().total(terms, self.scale if last else 1.0))

    def among(self, rank: int, size: int) -> Reduction:
        """This collective among some ranks only, each of which contributes what is in the result's memory."""
        randomness = self.randomness._replace(rank=rank, size=size)
        return Reduction(self.codec, self.down, self.out, self.out, self.scale, randomness, self.pool, self.origin)

    def _terms(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int]) -> Terms:
        own = None if position is None else self.x[lo:hi]
        return Terms(wires, position or 0, own, hi - lo, self.kind, self.x.data)

    def _store(self, lo: int, hi: int, acc: Any) -> None:
        self.out[lo:hi].data[:] = as_kind(acc, self.kind).data

    def _at(self, stage: int, lo: int) -> Stream:
        """The random numbers of a stage from element `lo` on."""
        return self.randomness.stream(self.down if stage == DOWN else self.codec, stage, self.origin + lo)
