"""Codecs with kernels of their own for each step, on wires of blocks that can be cut at multiples of the grain."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Sequence

from .. import launch
from ..arrays import Flat
from .base import Codec, Stream, Terms


class Piece(NamedTuple):
    """A range of one of many arrays: which, bytes before it, its values, bytes before it in wires, number of its first value."""

    array: int
    at: int
    n: int
    wire: int
    first: int


class Blocked(Codec):
    """What follows from kernels named `family`_encode_f32 and so on, whose last arguments are the codec's settings."""

    family = ""
    nearest = 0  # 1: no chance is taken

    def tail(self) -> tuple[Any, ...]:
        """The settings as the kernels take them."""
        raise NotImplementedError

    def behind(self, wire: Any, lo: int, kind: str) -> Any:
        """A wire from value `lo` on. Kernels are told how far they go."""
        return _behind(wire, self.size(lo, kind)) if lo else wire

    def _kernel(self, verb: str, kind: str, like: Any) -> Any:
        return launch.kernel(f"{self.family}_{verb}_{kind}", like)

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        run, tail = self._kernel("encode", x.kind, wire), (self.nearest, *self.tail())

        def part(lo: int, hi: int) -> None:
            out = self.behind(wire, lo, x.kind)
            run(_behind(x.data, lo), hi - lo, out, stream.key, stream.first + lo, stream.offset, *tail)

        launch.parallel(part, x.n, self.grain, wire)

    def decode_into(self, wire: Any, out: Flat) -> None:
        run, tail, kind = self._kernel("decode", out.kind, wire), self.tail(), out.kind

        def part(lo: int, hi: int) -> None:
            run(self.behind(wire, lo, kind), hi - lo, _behind(out.data, lo), *tail)

        launch.parallel(part, out.n, self.grain, wire)

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        run, tail = self._kernel("add", kind, wire), self.tail()

        def part(lo: int, hi: int) -> None:
            run(self.behind(wire, lo, kind), hi - lo, _behind(acc, lo), weight, *tail)

        launch.parallel(part, acc.size, self.grain, wire)

    def reduce_into(self, terms: Terms, scale: float, out: Any, stream: Stream) -> None:
        run, tail, kind = self._kernel("reduce", terms.kind, out), (self.nearest, *self.tail()), terms.kind

        def part(lo: int, hi: int) -> None:
            wires = [self.behind(wire, lo, kind) for wire in terms.wires]
            own = None if terms.own is None else _behind(terms.own.data, lo)
            draws = (stream.key, stream.first + lo, stream.offset, *tail)
            run(wires, len(wires), terms.position, own, hi - lo, scale, self.behind(out, lo, kind), *draws)

        launch.parallel(part, terms.n, self.grain, out)

    # The same for pieces of many arrays on the host, by one thread, given by their addresses

    def in_a_row(self, kind: str, like: Any) -> bool:
        """Whether that is possible."""
        return all(launch.bare(f"{self.family}_{verb}_{kind}", like) for verb in ("encode", "decode", "reduce"))

    def encode_pieces(self, pieces: Sequence[Piece], kind: str, xs: Sequence[int], wire: int, stream: Stream) -> None:
        key, offset, tail = stream.key, stream.offset, (self.nearest, *self.tail())
        calls = [(xs[k] + at, n, wire + w, key, first, offset, *tail) for k, at, n, w, first in pieces]
        launch.in_a_row(f"{self.family}_encode_{kind}", calls)

    def decode_pieces(self, pieces: Sequence[Piece], kind: str, wire: int, outs: Sequence[int]) -> None:
        tail = self.tail()
        launch.in_a_row(
            f"{self.family}_decode_{kind}", [(wire + w, n, outs[k] + at, *tail) for k, at, n, w, _ in pieces]
        )

    def reduce_pieces(
        self,
        pieces: Sequence[Piece],
        kind: str,
        wires: Sequence[int],
        position: Optional[int],
        xs: Sequence[int],
        scale: float,
        out: int,
        stream: Stream,
    ) -> None:
        """As reduce_into, with the own values of each piece at `position`, if that is not None."""
        key, offset, tail, p = stream.key, stream.offset, (self.nearest, *self.tail()), len(wires)
        pointers = ctypes.c_void_p * p
        launch.in_a_row(
            f"{self.family}_reduce_{kind}",
            [
                (
                    pointers(*[wire + w for wire in wires]),
                    p,
                    position or 0,
                    None if position is None else xs[k] + at,
                    n,
                    scale,
                    out + w,
                    key,
                    first,
                    offset,
                    *tail,
                )
                for k, at, n, w, first in pieces
            ],
        )


def _behind(array: Any, at: int) -> Any:
    return array[at:] if at else array


def blocks_size(n: int, bits: int, block: int, head: int) -> int:
    """Bytes of n values in blocks of a scale (`head` bytes) and planes of bits, 8 bytes each for 64 values."""
    whole, rest = divmod(n, block)
    tail = head + (rest // 64 * 8 + -(-(rest % 64) // 8)) * bits if rest else 0
    return whole * (head + block // 8 * bits) + tail
