"""zstd: another codec's wire, made shorter without loss by Zstandard's entropy coder. `natural|zstd`, always last.

Wires differ in length: `wire_size` is the most that one can have, what travels is as long as it became. Blocks of a wire
that do not shrink are stored as they are. Coding is done on the host, in blocks, by MPICOMP_NUM_THREADS threads.
docs/wire-format.md states every byte.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Callable, Sequence

import numpy as np

from .. import launch
from ..arrays import KINDS, Flat, beside, empty, is_cupy
from ..errors import CodecError, WireError
from .base import Codec, Stream, Terms, as_kind

BLOCK = 1 << 17  # bytes of the inner wire that are coded together: what Zstandard takes at a time
_SAMPLE = 1 << 17  # normal values that tell how long a wire may be expected to be
_MINE = threading.local()  # a coder is for one thread at a time


@dataclass(frozen=True)
class Zstd(Codec):
    """What `inner` writes, coded without loss: the same values, errors and bits of results, in fewer bytes.

    level=0 codes single bytes by how often they are, and looks for next to no repeats: with rounded floats there are none,
    and it is up to three times as fast as the first of Zstandard's own levels, 1 to 22.
    """

    inner: Codec
    level: int = 0

    name = "zstd"  # not among the names of codecs: it is none by itself

    def check(self) -> None:
        if isinstance(self.inner, Zstd):
            raise CodecError(f"{self.inner}|zstd makes no sense: {self.inner} is coded already")
        if self.inner.name == "lowrank":
            raise CodecError("lowrank|zstd makes no sense: factors are summed as they are, and travel so")
        if not 0 <= self.level <= 22:
            raise CodecError(f"zstd: level={self.level!r} must be from 0 to 22")
        library()  # say now what is missing

    def __str__(self) -> str:
        return f"{self.inner}|zstd" + (f":level={self.level}" if self.level else "")

    # All that is said of the values is said by the inner codec

    @property
    def kinds(self) -> Sequence[str]:  # type: ignore[override]
        return self.inner.kinds

    @property
    def unbiased(self) -> bool:  # type: ignore[override]
        return self.inner.unbiased

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self.inner.bounded

    @property
    def correlated(self) -> bool:  # type: ignore[override]
        return self.inner.correlated

    @property
    def shared(self) -> bool:  # type: ignore[override]
        return self.inner.shared

    @property
    def dense(self) -> bool:  # type: ignore[override]
        return self.inner.dense

    @property
    def grain(self) -> int:
        return self.inner.grain

    def omega(self, n: int) -> float:
        return self.inner.omega(n)

    def noise(self, n: int) -> float:
        return self.inner.noise(n)

    def omegas(self, n: int) -> tuple[float, float]:
        return self.inner.omegas(n)

    # Lengths

    def size(self, n: int, kind: str) -> int:
        """The most: nothing shrinks."""
        inner = self.inner.size(n, kind)
        return _head(inner) + inner if inner else 0

    def expected(self, n: int, kind: str) -> int:
        """As normal values would have it."""
        return round(_share(self, kind) * self.size(n, kind))

    def length(self, room: Any, n: int, kind: str) -> int:
        most, told = self.size(n, kind), int.from_bytes(room[:8].tobytes(), "little")
        if not most:
            return 0
        if not _head(self.inner.size(n, kind)) < told <= min(room.size, most):
            raise WireError(f"{self}: a wire of {told} bytes, where {min(room.size, most)} are the most")
        return told

    def place(self, data: Any) -> Any:
        return None

    # The work is the inner codec's, on its own wires

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        self._write(wire, x.n, x.kind, x.data, lambda room: self.inner.encode_into(x, room, stream))

    def decode_into(self, wire: Any, out: Flat) -> None:
        self.inner.decode_into(self._read(wire, out.n, out.kind, out.data), out)

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        self.inner.add_into(self._read(wire, acc.size, kind, acc), acc, kind, weight)

    def reduce_into(self, terms: Terms, scale: float, out: Any, stream: Stream) -> None:
        plain, inner = self._plain(terms), self.inner
        self._write(out, terms.n, terms.kind, terms.like, lambda room: inner.reduce_into(plain, scale, room, stream))

    def total(self, terms: Terms, scale: float = 1.0, acc: Any = None) -> Any:
        return self.inner.total(self._plain(terms), scale, acc)

    def _plain(self, terms: Terms) -> Terms:
        return terms._replace(wires=[self._read(wire, terms.n, terms.kind, terms.like) for wire in terms.wires])

    # Coding

    def _write(self, wire: Any, n: int, kind: str, like: Any, encode: Callable[[Any], None]) -> None:
        """Let the inner wire be encoded where it lies behind all that it may become, and code it to the front."""
        size = self.inner.size(n, kind)
        if not size:
            return
        room = wire[_head(size) : _head(size) + size]
        if is_cupy(like):
            inner = empty(size, np.uint8, like)
            encode(inner)
            room[:] = inner.get()
        else:
            encode(room)
        blocks = [room[at : at + BLOCK] for at in range(0, size, BLOCK)]
        coded: list[Any] = list(blocks)

        def work(lo: int, hi: int) -> None:
            for i in range(lo // BLOCK, -(-hi // BLOCK)):
                frame = self._coder.compress(blocks[i])
                if len(frame) < blocks[i].size:
                    coded[i] = np.frombuffer(frame, np.uint8)

        launch.parallel(work, size, BLOCK)
        lengths = np.array([each.size for each in coded], "<u4")
        ends = _head(size) + np.cumsum(lengths, dtype=np.int64)
        for each, end in zip(coded, ends.tolist()):
            wire[end - each.size : end] = each
        wire[:8] = np.array([ends[-1]], "<u8").view(np.uint8)
        wire[8 : 8 + 4 * lengths.size] = lengths.view(np.uint8)
        wire[8 + 4 * lengths.size : _head(size)] = 0

    def _read(self, wire: Any, n: int, kind: str, like: Any) -> Any:
        """The inner wire, where `like` is. Whatever the bytes are, no more memory is taken than it has."""
        size = self.inner.size(n, kind)
        wire, inner = wire[: self.length(wire, n, kind)], np.empty(size, np.uint8)
        blocks = -(-size // BLOCK)
        lengths = wire[8 : 8 + 4 * blocks].copy().view("<u4").astype(np.int64)
        ends = _head(size) + np.cumsum(lengths)
        if size and (ends[-1] != wire.size or wire[8 + 4 * blocks : _head(size)].any()):
            raise WireError(f"{self}: blocks of {ends[-1] - _head(size)} bytes in a wire of {wire.size}")

        def work(lo: int, hi: int) -> None:
            for i in range(lo // BLOCK, -(-hi // BLOCK)):
                block = inner[i * BLOCK : (i + 1) * BLOCK]
                coded = wire[ends[i] - lengths[i] : ends[i]]
                block[:] = coded if coded.size == block.size else self._decoded(coded, block.size)

        launch.parallel(work, size, BLOCK)
        return beside(inner, like)

    def _decoded(self, frame: Any, size: int) -> Any:
        zstandard = library()
        try:
            told = zstandard.get_frame_parameters(frame).content_size  # before memory is taken for it
            found = _decoder().decompress(frame, allow_extra_data=False) if told == size else b""
        except zstandard.ZstdError as error:
            raise WireError(f"{self}: {error}") from None
        if len(found) != size:
            raise WireError(f"{self}: a block of {told} bytes, where one of {size} belongs")
        return np.frombuffer(found, np.uint8)

    @property
    def _coder(self) -> Any:
        """This thread's."""
        coders = _MINE.__dict__.setdefault("coders", {})
        if self.level not in coders:
            coders[self.level] = library().ZstdCompressor(compression_params=parameters(self.level))
        return coders[self.level]


def library() -> Any:
    """zstandard, or an error that says what to install."""
    try:
        import zstandard
    except ImportError as error:
        raise CodecError("zstd needs the package zstandard: pip install 'mpicomp[zstd]'") from error
    return zstandard


@cache
def parameters(level: int) -> Any:
    make = library().ZstdCompressionParameters
    if level:
        return make.from_level(level, source_size=BLOCK, write_checksum=True)
    search = {"strategy": 1, "min_match": 7, "hash_log": 6, "chain_log": 6, "search_log": 1}  # as good as none
    return make(window_log=BLOCK.bit_length() - 1, **search, write_checksum=True)


def _decoder() -> Any:
    """This thread's."""
    if not hasattr(_MINE, "decoder"):
        _MINE.decoder = library().ZstdDecompressor()
    return _MINE.decoder


def _head(size: int) -> int:
    """Bytes before the blocks of an inner wire: the length of all, that of each block, to a multiple of 8."""
    return 8 + -(-size // BLOCK * 4 // 8) * 8


@lru_cache(maxsize=64)
def _share(codec: Zstd, kind: str) -> float:
    """What part of the most a wire of normal values has."""
    values = np.random.default_rng(0).standard_normal(_SAMPLE, KINDS[kind].accumulator)
    wire = np.empty(codec.size(_SAMPLE, kind), np.uint8)
    codec.encode_into(as_kind(values, kind), wire, Stream(1))
    return codec.length(wire, _SAMPLE, kind) / wire.size
