"""What the neighbour schedule asks for: ranges of this rank's values as wires, and what becomes of the others'."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Any, Iterable, Optional, Sequence

import numpy as np

from . import arrays
from .arrays import KINDS, Flat
from .codecs.base import Codec, Stream, accumulate, as_kind
from .errors import DisagreementError
from .job import Pool
from .schedules.cuts import segment_for, segments

_HEAD = 8  # bytes in front of an array whose length is checked on arrival


@dataclass(frozen=True)
class Link:
    """How arrays travel between this rank and its neighbours.

    codecs[r] is how rank r's array of lengths[r] values of `kind` travels; this rank's own are among them. With `checked`
    the length travels too, and it is an error if the receiver expects another.
    """

    rank: int
    size: int
    sources: Sequence[int]
    destinations: Sequence[int]
    lengths: dict[int, int]
    codecs: dict[int, Codec]
    kind: str
    segment: Optional[int] = None  # bytes; else by the length of each array
    grain: int = 1
    checked: bool = False

    @cached_property
    def cuts(self) -> dict[int, list[tuple[int, int]]]:
        """The ranges of every array: where they end depends on nothing that only one side knows."""
        item, cuts = KINDS[self.kind].storage.itemsize, {}
        for r, n in self.lengths.items():
            segment = self.segment or segment_for(n * item, self.codecs[r].size(n, self.kind))
            lanes = segments(n, 1, lcm(self.codecs[r].grain, self.grain), segment // item)
            cuts[r] = [lane[0] for lane in lanes]
        return {r: each or [(0, 0)] for r, each in cuts.items()} if self.checked else cuts


def rotated(ranks: Iterable[int], rank: int, size: int) -> list[int]:
    """Ranks in the order of going up from `rank`: where all send in this order, messages of a ring do not collide."""
    return sorted(ranks, key=lambda r: (r - rank) % size)


class Exchange:
    """One exchange. Subclasses say what `values` are sent, and `take` what comes (this rank's own wire first)."""

    def __init__(self, link: Link, stream: Stream, pool: Pool):
        self.link, self.kind, self.codecs = link, link.kind, link.codecs
        self.sources = rotated(link.sources, link.rank, link.size)[::-1]  # the first to arrive first
        self.destinations = rotated(link.destinations, link.rank, link.size)
        self.bytes_sent = 0
        self._stream, self._pool = stream, pool
        self.like: Any = None  # an array where the values are
        self._cuts = link.cuts

    @property
    def depth(self) -> int:
        return max(map(len, self._cuts.values()), default=0)

    # What a sort of exchange defines

    def values(self, lo: int, hi: int) -> Flat:
        """What is sent for a range of this rank's array."""
        raise NotImplementedError

    def take(self, source: int, wire: Any, lo: int, hi: int) -> None:
        """A range of a rank's array, this rank's own included."""
        raise NotImplementedError

    def close(self, lo: int, hi: int) -> None:
        """Everybody's range was taken."""

    # What the schedule calls

    def cut(self, rank: int, lane: int) -> Optional[tuple[int, int]]:
        cuts = self._cuts[rank]
        return cuts[lane] if lane < len(cuts) else None

    def room(self, source: int, lo: int, hi: int) -> Any:
        codec = self.codecs[source]
        return self._pool.get(self._head(lo) + codec.size(hi - lo, self.kind), codec.place(self.like))

    def encode(self, lo: int, hi: int) -> Any:
        me, head = self.link.rank, self._head(lo)
        codec = self.codecs[me]
        wire = self._pool.get(head + codec.size(hi - lo, self.kind), codec.place(self.like), lend=True)
        if head:
            wire[:head].view(np.int64)[0] = self.link.lengths[me]
        if lo < hi:
            with np.errstate(all="ignore"):  # NaN and Inf are passed on, not remarked upon
                values = self.values(lo, hi)
            codec.encode_into(values, wire[head:], self._stream._replace(first=lo))
        wire = wire[: head + codec.length(wire[head:], hi - lo, self.kind)]
        self.bytes_sent += len(self.destinations) * wire.nbytes
        return wire

    def decode(self, source: int, wire: Any, lo: int, hi: int) -> None:
        head = self._head(lo)
        told = int(wire[:head].view(np.int64)[0]) if head else self.link.lengths[source]
        if told != self.link.lengths[source]:
            raise DisagreementError(
                f"rank {self.link.rank} expects {self.link.lengths[source]} values from rank {source}, which sends {told}"
            )
        if lo < hi:
            with np.errstate(all="ignore"):
                self.take(source, wire[head:], lo, hi)

    def release(self, wires: Sequence[Any]) -> None:
        for wire in wires:
            self._pool.put(wire)

    def _head(self, lo: int) -> int:
        return _HEAD if self.link.checked and lo == 0 else 0


class Gather(Exchange):
    """Everybody's values into `rows`: pairs of a source and where its array goes."""

    def __init__(self, x: Flat, rows: Sequence[tuple[int, Flat]], *args: Any):
        super().__init__(*args)
        self._x, self._rows, self.like = x, rows, x.data

    def values(self, lo: int, hi: int) -> Flat:
        return self._x[lo:hi]

    def take(self, source: int, wire: Any, lo: int, hi: int) -> None:
        for rank, row in self._rows:
            if rank == source:
                self.codecs[source].decode_into(wire, row[lo:hi])


class Remembering(Gather):
    """As Gather, but what travels is what the memory says, and the rows are its estimates of the others' arrays."""

    def __init__(self, memory: Any, *args: Any):
        super().__init__(*args)
        self._memory = memory

    def values(self, lo: int, hi: int) -> Flat:
        return Flat(self._memory.outgoing(wide(self._x[lo:hi]), lo, hi), self.kind)

    def take(self, source: int, wire: Any, lo: int, hi: int) -> None:
        estimate = self._memory.heard(source, self.codecs[source], wire, lo, hi)
        for rank, row in self._rows:
            if rank == source:
                row[lo:hi].data[:] = as_kind(estimate, row.kind).data


class Average(Exchange):
    """acc = weights[rank] * x, exact, + the others' values, each times its weight: decoded and added in one pass."""

    def __init__(self, x: Flat, acc: Any, weights: dict[int, float], *args: Any):
        super().__init__(*args)
        self._x, self._acc, self._weights, self.like = x, acc, weights, x.data

    def values(self, lo: int, hi: int) -> Flat:
        return self._x[lo:hi]

    def take(self, source: int, wire: Any, lo: int, hi: int) -> None:
        part = self._acc[lo:hi]
        if source != self.link.rank:
            self.codecs[source].add_into(wire, part, self.kind, self._weights[source])
        else:
            part[:] = 0
            accumulate(self._x[lo:hi], part, self._weights[source])


def wide(x: Flat) -> Any:
    """x in the type in which sums of it are taken; no copy where that is its own."""
    if KINDS[x.kind].storage == KINDS[x.kind].accumulator:
        return x.data
    acc = arrays.empty(x.n, KINDS[x.kind].accumulator, like=x.data)
    acc[:] = 0
    accumulate(x, acc, 1.0)
    return acc


def wide_kind(kind: str) -> str:
    """The kind of sums of this kind."""
    return "f64" if KINDS[kind].accumulator == np.dtype("f8") else "f32"
