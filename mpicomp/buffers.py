"""mpi4py's buffer specs: which of them hold data that a codec can carry, and where."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from mpi4py import MPI

from . import arrays
from .arrays import Flat
from .errors import BufferError


def pair(sendbuf: Any, recvbuf: Any) -> Optional[tuple[Flat, Flat]]:
    """(x, out) of a collective whose two buffers have the same length; None if they are for MPI as they are."""
    out = flat(recvbuf, "recvbuf", writable=True)
    if out is None:
        return None
    if sendbuf is MPI.IN_PLACE:
        return out, out
    x = flat(sendbuf, "sendbuf")
    if x is None:
        return None
    same_kind(x, out)
    if x.n != out.n:
        raise BufferError(f"sendbuf has {x.n} values and recvbuf {out.n}")
    if arrays.overlap(x, out):
        raise BufferError("sendbuf and recvbuf overlap; for a result in place pass MPI.IN_PLACE as sendbuf")
    return x, out


def flat(spec: Any, name: str, writable: bool = False) -> Optional[Flat]:
    """The floating-point data of a buffer spec: an array, or [array, datatype], [array, count, datatype]."""
    if not isinstance(spec, (list, tuple)):
        return arrays.flatten(spec, name, writable)
    if not spec or not _plain(spec[-1]):
        return None
    data, char = spec[0], _typechar(spec[-1])
    if char is None:
        return None
    view = arrays.flatten(data, name, writable)
    if view is None or not _same_type(data, char):
        view = _reinterpret(data, char, name, writable)
    if view is None or len(spec) == 2:
        return view
    return _counted(view, spec[1:-1], char, name)


def blocks(spec: Any, p: int, name: str, writable: bool = False) -> Optional[list[Flat]]:
    """One flat array for each of p ranks: equal parts of a buffer, or as counts and displacements say.

    An array, or [array, counts], [array, (counts, displs)], [array, counts, displs], each with or without a datatype
    behind; counts may be one number for all. None if the buffer is for MPI as it is.
    """
    if not isinstance(spec, (list, tuple)):
        spec = [spec]
    data, *rest = spec
    typed = bool(rest) and isinstance(rest[-1], (str, MPI.Datatype))
    view = flat([data, rest.pop()] if typed else data, name, writable)
    if view is None:
        return None
    unit = unit_of(spec)
    if len(rest) == 1 and isinstance(rest[0], (list, tuple)) and len(rest[0]) == 2 and not np.isscalar(rest[0][0]):
        rest = list(rest[0])
    counts, displs = [*rest, None, None][:2]
    if counts is None:
        if view.n % (p * unit):
            raise BufferError(f"{name}: {view.n // unit} values cannot be shared out evenly among {p} ranks")
        counts = view.n // (p * unit)
    counts = [int(count) for count in np.broadcast_to(counts, p)] if np.ndim(counts) == 0 else [*map(int, counts)]
    displs = np.cumsum([0, *counts[:-1]]) if displs is None else displs
    if len(counts) != p or len(displs) != p:
        raise BufferError(f"{name}: {len(counts)} counts and {len(displs)} displacements for {p} ranks")
    return [_block(view, unit * count, unit * int(displ), name) for count, displ in zip(counts, displs)]


def head(spec: Any) -> Any:
    """A buffer spec without its counts and displacements: enough to see the type."""
    if not isinstance(spec, (list, tuple)) or not spec:
        return spec
    return [spec[0], spec[-1]] if isinstance(spec[-1], (str, MPI.Datatype)) else spec[0]


def _block(view: Flat, count: int, displ: int, name: str) -> Flat:
    if count < 0 or displ < 0 or displ + count > view.n:
        raise BufferError(f"{name}: {count} values from {displ} on do not fit into its {view.n}")
    return view[displ : displ + count]


def same_kind(x: Flat, out: Flat) -> None:
    """Both buffers of a collective must hold the same sort of numbers, in the same sort of memory."""
    if x.kind != out.kind:
        raise BufferError(f"sendbuf holds {arrays.KINDS[x.kind].label} and recvbuf {arrays.KINDS[out.kind].label}")
    if arrays.is_cupy(x.data) != arrays.is_cupy(out.data):
        raise BufferError("one of sendbuf and recvbuf is on a GPU, the other is not")


def unit_of(spec: Any) -> int:
    """How many real values one number of a buffer is: 2 if it is complex."""
    plain = head(spec)
    if isinstance(plain, list):
        return 2 if _plain(plain[1]) and _typechar(plain[1]) in ("F", "D") else 1
    return 2 if "complex" in str(getattr(plain, "dtype", "")) else 1


def _plain(datatype: Any) -> bool:
    return isinstance(datatype, str) or (isinstance(datatype, MPI.Datatype) and datatype.is_predefined)


def _typechar(datatype: Any) -> Optional[str]:
    """The typecode of a floating-point or complex datatype, else None."""
    try:
        char = np.dtype(datatype if isinstance(datatype, str) else datatype.typestr).char
    except (TypeError, ValueError):
        return None
    return char if char in "efdFD" else None


def _same_type(data: Any, char: str) -> bool:
    dtype = getattr(data, "dtype", None)
    return dtype is not None and arrays.kind_of(dtype) == arrays.kind_of(np.dtype(char)) is not None


def _reinterpret(data: Any, char: str, name: str, writable: bool) -> Optional[Flat]:
    """Bytes of another type that the spec declares to be of type `char`."""
    try:
        memory = memoryview(data).cast("B")
    except (TypeError, ValueError):
        return None
    if memory.nbytes % np.dtype(char).itemsize:
        return None
    return arrays.flatten(np.frombuffer(memory, char), name, writable)


def _counted(view: Flat, counts: Any, char: str, name: str) -> Optional[Flat]:
    if len(counts) != 1 or not isinstance(counts[0], int):
        return None  # displacements and the like are MPI's business
    count = counts[0] * (2 if char in "FD" else 1)
    if not 0 <= count <= view.n:
        raise BufferError(f"{name}: count {counts[0]} does not fit the buffer of {view.n} values")
    return view[:count]
