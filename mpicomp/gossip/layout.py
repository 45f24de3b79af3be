"""One array, or a list or dict of them, as one vector of sums' type and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Sequence

import numpy as np

from .. import arrays
from ..arrays import KINDS, Flat
from ..codecs.base import accumulate, add, as_kind
from ..errors import BufferError, CodecError
from ..exchange import wide, wide_kind


class Layout:
    """The names, shapes and type of somebody's parameters. What is mixed later must have the same."""

    def __init__(self, params: Any):
        named = _named(params)
        self.names = tuple(named)
        self.shapes = [_shape(x) for x in named.values()]
        flats = [_flat(x, name) for name, x in named.items()]
        kinds = sorted({flat.kind for flat in flats})
        if len(kinds) > 1:
            raise CodecError(f"all arrays must have one type; these have {kinds}: use one method each")
        self.like = flats[0].data[:0] if flats else None  # tells where they are: on the host, or on which GPU
        self._check_memory(flats)
        self.stored = kinds[0] if kinds else "f32"
        self.kind = wide_kind(self.stored)
        self.sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]
        self.n = sum(self.sizes)
        self.words = ", ".join(f"{name} {shape}" for name, shape in zip(self.names, self.shapes))
        self.nbytes = self.n * KINDS[self.stored].storage.itemsize

    def __str__(self) -> str:
        return f"{self.n} {KINDS[self.stored].label} in {len(self.sizes)}"

    def flats(self, x: Any, argument: str = "x") -> list[Flat]:
        """The memory of x, checked."""
        named = _named(x, argument)
        names = [argument + name[1:] for name in self.names]  # theirs begin with x
        if list(named) != names:
            raise BufferError(
                f"{argument} has the arrays {list(named)[:8]}, not {names[:8]} as this method was made for"
            )
        flats = [_flat(array, name, writable=argument == "x") for name, array in named.items()]
        for name, flat, array, shape in zip(names, flats, named.values(), self.shapes):
            if _shape(array) != shape or flat.kind != self.stored:
                raise BufferError(f"{name} is {flat.kind} {_shape(array)}, not {self.stored} {shape} as at the start")
        self._check_memory(flats)
        if argument == "x":
            arrays.check_apart(dict(zip(names, flats)), "mixed")
        return flats

    def in_order(self, x: Any, update: Any) -> None:
        """Raise if the values of the two are not in the same order: square matrices of two orders have one shape."""
        for name, one, other in zip(self.names, _named(x).values(), _named(update).values()):
            if _transposed(one) != _transposed(other):
                raise BufferError(f"{name} and its update: one is in C's order and the other in Fortran's")

    def _check_memory(self, flats: Sequence[Flat]) -> None:
        if any(arrays.place(flat.data) != arrays.place(self.like) for flat in flats):
            raise BufferError("some of the arrays are on a GPU, others are not, or on another one: use one method each")

    def vector(self, flats: Sequence[Flat]) -> np.ndarray:
        """A copy of all values in one vector."""
        return np.concatenate([wide(flat) for flat in flats]) if flats else np.empty(0, "f4")

    def parts(self, vector: Any) -> list[Flat]:
        """Where each of the arrays is in a vector."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [Flat(vector[lo:hi], self.kind) for lo, hi in zip(ends, ends[1:])]

    def store(self, vector: np.ndarray, flats: Sequence[Flat]) -> None:
        """The vector back into x."""
        for flat, part in zip(flats, self.parts(vector)):
            flat.data[:] = as_kind(part.data, flat.kind).data

    def add(self, flats: Sequence[Flat], updates: Sequence[Flat]) -> None:
        """x += updates, rounded to the type of x once."""
        for flat, update in zip(flats, updates):
            if update.kind == self.kind:
                add(flat.data, update.data)
                continue
            total = wide(flat)
            accumulate(update, total, 1.0)
            if total is not flat.data:
                flat.data[:] = as_kind(total, flat.kind).data


def _named(x: Any, argument: str = "x") -> dict[str, Any]:
    if hasattr(x, "dtype"):
        return {argument: x}
    pairs = sorted(x.items(), key=lambda item: str(item[0])) if isinstance(x, Mapping) else enumerate(x)
    return {f"{argument}[{key!r}]": value for key, value in pairs}


def _flat(x: Any, name: str, writable: bool = True) -> Flat:
    flat = arrays.flatten(x, name, writable=writable)
    if flat is None:
        raise CodecError(f"{name} must hold floating-point numbers, not {getattr(x, 'dtype', type(x).__name__)}")
    return flat


def _shape(x: Any) -> tuple[int, ...]:
    """The shape of x's memory: that of the transpose for arrays in Fortran's order, twice the last for complex ones."""
    shape = tuple(x.shape)[::-1] if _transposed(x) else tuple(x.shape)
    if "complex" in str(x.dtype):
        shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
    return shape


def _transposed(x: Any) -> bool:
    """Whether an array is in Fortran's order."""
    return not arrays.is_torch(x) and not x.flags.c_contiguous
