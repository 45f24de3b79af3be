"""What topk and randk share: k values of each block travel, and what tells where they belong.

Blocks are fixed, so what is kept does not depend on how a collective cuts its array. The kept values travel as they are,
or encoded by a second codec (see chain.py). docs/wire-format.md states every byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator, NamedTuple, Optional

import numpy as np

from .. import launch
from ..arrays import KINDS, Flat, empty, is_cupy
from ..errors import CodecError, WireError
from .base import Codec, Stream
from .raw import Raw

MOST = 65536  # values of a block: an index takes two bytes
RAW = Raw()


class Blocks(NamedTuple):
    """Some blocks of `m` values, from value `lo` and byte `at` on: their kept values and their wires."""

    lo: int
    hi: int
    at: int
    m: int
    k: int
    inner: int  # bytes of a block's kept values
    stride: int  # bytes of a block

    @property
    def number(self) -> int:
        return (self.hi - self.lo) // self.m

    def wire(self, whole: Any) -> Any:
        return whole[self.at : self.at + self.number * self.stride]

    def inners(self, wire: Any) -> Iterator[Any]:
        """Where the kept values of each block are."""
        return (wire[b * self.stride : b * self.stride + self.inner] for b in range(self.number))


@dataclass(frozen=True)
class Sparse(Codec):
    """`ratio` of the values of each block, rounded, at least one; or `k` of each block, all of a shorter one."""

    ratio: float = 0.01
    k: Optional[int] = None
    block: int = MOST

    dense = False
    either = ("ratio", "k")

    def check(self) -> None:
        if self.k is not None and self.ratio != type(self).ratio:
            raise CodecError(f"{self.name}: give ratio= or k=, not both")
        if not 0 < self.ratio <= 1:
            raise CodecError(f"{self.name}: ratio={self.ratio!r} must be above 0 and at most 1")
        if not 64 <= self.block <= MOST or self.block % 64:
            raise CodecError(f"{self.name}: block={self.block!r} must be a multiple of 64, at most {MOST}")
        if self.k is not None and not 1 <= self.k <= self.block:
            raise CodecError(f"{self.name}: k={self.k!r} must be from 1 to block={self.block}")

    @property
    def grain(self) -> int:
        return self.block

    def kept(self, m: int) -> int:
        """How many of a block of m values travel."""
        return min(self.k, m) if self.k is not None else max(1, int(self.ratio * m + 0.5))

    def share(self, n: int) -> float:
        """The smallest kept part of a block of n values' blocks."""
        return min((self.kept(m) / m for m in {min(n, self.block), n % self.block} if m), default=1.0)

    def tail(self, m: int, k: int) -> int:
        """Bytes that tell where the k values of a block belong."""
        raise NotImplementedError

    def blocks(self, second: Codec, n: int, kind: str, lo: int = 0, hi: int = -1) -> Iterator[Blocks]:
        """Values lo to hi of n: the whole blocks, then the short one that may be last."""
        hi = n if hi < 0 else hi
        full = hi // self.block * self.block
        for start, end, m in ((lo, full, self.block), (full, hi, hi - full)):
            if start < end:
                k = self.kept(m)
                inner = second.size(k, kind)
                stride = -(-(inner + self.tail(m, k)) // 8) * 8
                at = start // self.block * self._stride(second, kind)
                yield Blocks(start, end, at, m, k, inner, stride)

    def _stride(self, second: Codec, kind: str) -> int:
        k = self.kept(self.block)
        return -(-(second.size(k, kind) + self.tail(self.block, k)) // 8) * 8

    # The work, with the kept values encoded by `second`

    def size_with(self, second: Codec, n: int, kind: str) -> int:
        return sum(part.number * part.stride for part in self.blocks(second, n, kind))

    def encode_with(self, second: Codec, x: Flat, wire: Any, stream: Stream) -> None:
        def work(lo: int, hi: int) -> None:
            for part in self.blocks(second, x.n, x.kind, lo, hi):
                room = part.wire(wire)
                values = self.select(part, x, room, stream, apart=second != RAW)
                if values is None:
                    continue
                for b, inner in enumerate(part.inners(room)):
                    kept = Flat(values[b * part.k : (b + 1) * part.k], x.kind)
                    second.encode_into(kept, inner, stream._replace(first=stream.first + part.lo + b * part.m))

        launch.parallel(work, x.n, self.block, wire)

    def select(self, part: Blocks, x: Flat, room: Any, stream: Stream, apart: bool) -> Any:
        """Choose, and write where the chosen values belong. They are returned or, unless `apart`, go to the wire."""
        written = 0 if is_cupy(room) else self.tail(part.m, part.k)  # threads of a GPU put bits into what must be 0
        room.reshape(part.number, part.stride)[:, part.inner + written :] = 0
        item = x.data.itemsize
        kept = empty(part.number * part.k * item, "u1", like=room) if apart else room
        pace = part.k * item if apart else part.stride
        launch.kernel(f"{self.name}_select_{x.kind}", x.data)(
            x.data[part.lo : part.hi],
            part.hi - part.lo,
            part.m,
            part.k,
            kept,
            pace,
            room[part.inner :],
            part.stride,
            stream.shared or stream.key,
            (stream.first + part.lo) // self.block,
        )
        return kept.view(x.data.dtype) if apart else None

    def decode_with(self, second: Codec, wire: Any, out: Flat) -> None:
        def place(part: Blocks, *where: Any) -> int:
            scatter = launch.kernel(f"{self.name}_scatter_{out.kind}", wire)
            return scatter(*where, part.hi - part.lo, part.m, part.k, out.data[part.lo : part.hi])

        self._decode(second, wire, out.n, out.kind, place)

    def add_with(self, second: Codec, wire: Any, acc: Any, kind: str, weight: float) -> None:
        def place(part: Blocks, *where: Any) -> int:
            accumulate = launch.kernel(f"{self.name}_accumulate_{kind}", wire)
            return accumulate(*where, part.hi - part.lo, part.m, part.k, acc[part.lo : part.hi], weight)

        self._decode(second, wire, acc.size, kind, place)

    def _decode(self, second: Codec, wire: Any, n: int, kind: str, place: Callable[..., int]) -> None:
        storage = KINDS[kind].storage

        def work(lo: int, hi: int) -> None:
            for part in self.blocks(second, n, kind, lo, hi):
                room = part.wire(wire)
                kept, pace = room, part.stride
                if second != RAW:
                    values, pace = empty(part.number * part.k, storage, like=wire), part.k * storage.itemsize
                    for b, inner in enumerate(part.inners(room)):
                        second.decode_into(inner, Flat(values[b * part.k : (b + 1) * part.k], kind))
                    kept = values.view(np.uint8)
                if place(part, kept, pace, room[part.inner :], part.stride):
                    raise WireError(f"{self}: a block whose indices do not rise or are out of range")

        launch.parallel(work, n, self.block, wire)

    # On its own, the kept values as they are

    def size(self, n: int, kind: str) -> int:
        return self.size_with(RAW, n, kind)

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        self.encode_with(RAW, x, wire, stream)

    def decode_into(self, wire: Any, out: Flat) -> None:
        self.decode_with(RAW, wire, out)

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        self.add_with(RAW, wire, acc, kind, weight)
