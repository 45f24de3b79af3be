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
    if x.kind != out.kind:
        raise BufferError(f"sendbuf holds {arrays.KINDS[x.kind].label} and recvbuf {arrays.KINDS[out.kind].label}")
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
