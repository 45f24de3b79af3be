"""What a schedule asks for: encode, sum and decode ranges of one collective's array."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from .arrays import Flat, empty, is_cupy
from .codecs.base import Codec, Stream, Terms, as_kind
from .reference.rng import stream_key

UP, DOWN, SHUFFLE = 0, 1, 2  # stages of a collective; each has random numbers of its own


class Pool:
    """Byte buffers for reuse: fresh memory costs a page fault for each 4 KB. Keeps at most `limit` bytes."""

    def __init__(self, limit: int = 64 << 20):
        self._free: dict[Any, list[Any]] = {}
        self._kept = 0
        self._limit = limit

    def get(self, nbytes: int, like: Any = None) -> Any:
        size = -(-nbytes // 4096) * 4096
        free = self._free.get((size, is_cupy(like)))
        if free:
            self._kept -= size
            slab = free.pop()
        else:
            slab = empty(size, np.uint8, like)
        return slab[:nbytes]

    def put(self, buffer: Any) -> None:
        slab = buffer.base
        if slab is not None and self._kept + slab.size <= self._limit:
            self._kept += slab.size
            self._free.setdefault((slab.size, is_cupy(slab)), []).append(slab)


class Randomness(NamedTuple):
    """Where the random numbers of a call come from."""

    seed: int
    call: int
    rank: int
    size: int

    def stream(self, codec: Codec, stage: int, first: int) -> Stream:
        """The stream for elements from `first` on. Correlated codecs share one stream, shifted by the rank."""
        if not codec.correlated or stage != UP:
            return Stream(stream_key(self.seed, self.call, self.rank, stage), first)
        shuffle = np.random.Generator(np.random.Philox(stream_key(self.seed, self.call, 0, SHUFFLE))).permutation(
            self.size
        )
        return Stream(stream_key(self.seed, self.call, 0, stage), first, (int(shuffle[self.rank]) << 32) // self.size)


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
        self.pool = pool
        self._up = randomness.stream(codec, UP, origin)
        self._down = randomness.stream(down, DOWN, origin)

    # What schedules call

    def room(self, lo: int, hi: int) -> Any:
        """A buffer for somebody's part of a range."""
        return self.pool.get(self.part_size(lo, hi), self.x.data)

    def sum_room(self, lo: int, hi: int) -> Any:
        """A buffer for the sum of a range."""
        return self.pool.get(self.sum_size(lo, hi), self.x.data)

    def release(self, buffers: Sequence[Any]) -> None:
        for buffer in buffers:
            self.pool.put(buffer)

    def encode(self, lo: int, hi: int) -> Any:
        """This rank's part of a range."""
        wire = self.room(lo, hi)
        self.write_part(lo, hi, wire)
        return wire

    def reduce(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int]) -> Any:
        """The encoded sum of a range: the wires and, at `position` among them, this rank's own values."""
        wire = self.sum_room(lo, hi)
        self.write_sum(lo, hi, wires, position, wire)
        return wire

    def decode(self, wire: Any, lo: int, hi: int) -> None:
        """A sum into the result."""
        self.down.decode_into(wire, self.out[lo:hi])

    def copy(self) -> Iterator[Any]:
        """The whole collective where this rank is alone: exact."""
        if self.x is not self.out:
            self.out.data[:] = self.x.data
        yield ()

    # The work itself, into buffers that are there

    def part_size(self, lo: int, hi: int) -> int:
        return self.codec.size(hi - lo, self.kind)

    def sum_size(self, lo: int, hi: int) -> int:
        return self.down.size(hi - lo, self.kind)

    def write_part(self, lo: int, hi: int, wire: Any) -> None:
        self.codec.encode_into(self.x[lo:hi], wire, self._at(self._up, lo))

    def write_sum(self, lo: int, hi: int, wires: Sequence[Any], position: Optional[int], wire: Any) -> None:
        own = None if position is None else self.x[lo:hi]
        terms, stream = Terms(wires, position or 0, own, hi - lo, self.kind), self._at(self._down, lo)
        if self.codec == self.down:
            self.down.reduce_into(terms, self.scale, wire, stream)
        else:
            self.down.encode_into(as_kind(self.codec.total(terms, self.scale), self.kind), wire, stream)

    @staticmethod
    def _at(stream: Stream, lo: int) -> Stream:
        return stream._replace(first=stream.first + lo)
