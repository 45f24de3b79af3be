"""lowrank: a matrix as the product of two thin ones (PowerSGD). Arrays of more dimensions are shape[0] x all the rest.

Needs a shape, so it travels by an algorithm of its own (schedules/lowrank.py), which sums the factors of all ranks.
Vectors, and matrices m x n with (m + n) rank * 2 >= m n, travel whole. Arithmetic is in the type of sums, by kernels whose
order of additions is fixed: the same bits on every processor and on any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np

from .. import arrays, launch
from ..arrays import KINDS, Flat
from ..checks import whole
from ..errors import CodecError, WireError
from ..reference.rng import draws, stream_key
from .base import Codec, Stream, accumulate, as_kind
from .raw import Raw


class Matrix(NamedTuple):
    """The shape of a matrix that is worth two factors."""

    rows: int
    cols: int


@dataclass(frozen=True)
class LowRank(Codec, name="lowrank"):
    """Two factors of `rank` columns: the result of one step of power iteration. Biased, |C(x)-x| <= |x|.

    Wire: rank rows of left factor (orthonormal), then of right factor; an array that travels whole as it is.
    """

    rank: int = 2

    dense = False

    def check(self) -> None:
        if self.rank < 1:
            raise CodecError(f"lowrank: rank={self.rank!r} must be at least 1")

    def omega(self, n: int) -> float:
        return 1.0

    def matrix(self, shape: Sequence[int]) -> Optional[Matrix]:
        """How an array of that shape is factored; None if it travels whole."""
        rows, cols = (shape[0], int(np.prod(shape[1:]))) if len(shape) > 1 else (0, 0)
        return Matrix(rows, cols) if (rows + cols) * self.rank * 2 < rows * cols else None

    def sides(self, shape: Sequence[int]) -> tuple[int, int]:
        """How many numbers an array of that shape becomes on each side: those of a factor, or all on the first."""
        matrix = self.matrix(shape)
        return (int(np.prod(shape)), 0) if matrix is None else (matrix.rows * self.rank, matrix.cols * self.rank)

    def wire_size(self, n: Union[int, Sequence[int]], dtype: Any = np.float32) -> int:
        """The number of bytes of an array of that shape; a number stands for a vector."""
        kind, unit = arrays.values_of(dtype)
        self.carry(kind)
        given: Any = n if np.ndim(n) else [n]
        shape = tuple(whole("n", each, least=0) for each in given) + (2,) * (unit - 1)
        if self.matrix(shape) is None:
            return Raw().size(int(np.prod(shape)), kind)
        return sum(self.sides(shape)) * KINDS[kind].accumulator.itemsize

    def encode(self, x: Any, seed: int = 0) -> Any:
        flat = self._flatten(x, "x")
        matrix = self.matrix(flat.shape)
        if matrix is None:
            return Raw().encode(x, seed)
        right = random_factor(self.rank * matrix.cols, flat, stream_key(seed))
        values = widened(flat)
        left = project(values, matrix, right, self.rank)
        orthonormalize(left, matrix.rows, self.rank)
        right = back(values, matrix, left, self.rank)
        return np.concatenate([left, right]).view(np.uint8)

    def decode(self, wire: Any, like: Any = None, out: Any = None) -> Any:
        if (like is None) == (out is None):
            raise TypeError("decode takes either like= or out=")
        result = arrays.empty_like(like) if out is None else out
        flat = self._flatten(result, "like" if out is None else "out", writable=True)
        matrix = self.matrix(flat.shape)
        if matrix is None:
            return Raw().decode(wire, out=result)
        wire = arrays.beside(arrays.as_wire(wire), flat.data)
        factors = arrays.empty(sum(self.sides(flat.shape)), KINDS[flat.kind].accumulator, like=flat.data)
        if wire.size != factors.nbytes:
            raise WireError(f"wire has {wire.size} bytes; {self} writes {factors.nbytes} for shape {flat.shape}")
        factors.view(np.uint8)[:] = wire
        middle = matrix.rows * self.rank
        expand(factors[:middle], factors[middle:], matrix, self.rank, flat)
        return result

    def size(self, n: int, kind: str) -> int:
        raise CodecError(_WHERE)

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        raise CodecError(_WHERE)

    def decode_into(self, wire: Any, out: Flat) -> None:
        raise CodecError(_WHERE)


_WHERE = "lowrank needs matrices and the sum of all ranks' factors: it is for Allreduce, by its own algorithm"


def random_factor(n: int, like: Flat, key: int) -> Any:
    """n numbers uniform in -1 to 1, the same for the same key."""
    return arrays.beside((draws(n, key).view(np.int32) * 2.0**-31).astype(KINDS[like.kind].accumulator), like.data)


def widened(x: Flat) -> Any:
    """x in the type of sums: itself if it is."""
    if KINDS[x.kind].storage == KINDS[x.kind].accumulator:
        return x.data
    wide = arrays.zeros(x.n, KINDS[x.kind].accumulator, like=x.data)
    accumulate(x, wide, 1.0)
    return wide


def project(x: Any, matrix: Matrix, right: Any, rank: int) -> Any:
    """The left factor, rank rows: x times the right one."""
    rows, cols = matrix
    left = arrays.empty(rank * rows, x.dtype, like=x)
    run = _kernel("project", x)
    launch.parallel(
        lambda lo, hi: run(x[lo:hi], hi - lo, cols, right, left[lo // cols :], rows, rank), rows * cols, cols, x
    )
    return left


def back(x: Any, matrix: Matrix, left: Any, rank: int) -> Any:
    """The right factor, rank rows: the left one times x."""
    rows, cols = matrix
    right = arrays.empty(rank * cols, x.dtype, like=x)
    run = _kernel("back", x)

    def part(lo: int, hi: int) -> None:
        lo, hi = lo // rows, hi // rows
        run(x[lo:], (rows - 1) * cols + hi - lo, hi - lo, cols, left, right[lo:], cols, rank)

    launch.parallel(part, rows * cols, 64 * rows, x)
    return right


def expand(left: Any, right: Any, matrix: Matrix, rank: int, out: Flat) -> None:
    """The product of the factors, rounded to how out is stored."""
    rows, cols = matrix
    wide = out.data if out.data.dtype == left.dtype else arrays.empty(out.n, left.dtype, like=left)
    run = _kernel("expand", left)
    launch.parallel(
        lambda lo, hi: run(left[lo // cols :], rows, right, rank, hi - lo, cols, wide[lo:hi]), rows * cols, cols, left
    )
    if wide is not out.data:
        out.data[:] = as_kind(wide, out.kind).data


def orthonormalize(factor: Any, n: int, rank: int) -> None:
    """The rows of a factor, in place; those that depend on others become zero."""
    _kernel("orthonormalize", factor)(factor, n, rank)


def _kernel(verb: str, like: Any) -> Any:
    return launch.kernel(f"lowrank_{verb}_f{8 * like.itemsize}", like)
