"""mpi4py's buffer specs: which of them hold data that a codec can carry, and where."""

from __future__ import annotations

import operator
from typing import Any, Optional

import numpy as np
from mpi4py import MPI

from . import arrays
from .arrays import Flat
from .errors import BufferError, SpecError


def in_place(sendbuf: Any) -> bool:
    """Whether the data is in the other buffer: None says so too, as in mpi4py."""
    return sendbuf is MPI.IN_PLACE or sendbuf is None


def pair(sendbuf: Any, recvbuf: Any) -> Optional[tuple[Flat, Flat]]:
    """(x, out) of a collective whose two buffers have the same length; None if they are for MPI as they are."""
    out = flat(recvbuf, "recvbuf", writable=True)
    if in_place(sendbuf):
        return None if out is None else (out, out)
    x = flat(sendbuf, "sendbuf")
    if x is None and out is None:
        return None
    if x is None or out is None:
        raise BufferError(f"sendbuf holds {_words(sendbuf)} and recvbuf {_words(recvbuf)}")
    same_kind(x, out)
    if x.n != out.n:
        raise BufferError(f"sendbuf has {x.n // x.unit} values and recvbuf {out.n // out.unit}")
    apart(x, out)
    return x, out


def apart(x: Flat, out: Flat) -> None:
    """What is sent must not be where the result goes."""
    if arrays.overlap(x, out):
        raise BufferError("sendbuf and recvbuf overlap; for a result in place pass MPI.IN_PLACE as sendbuf")


def flat(spec: Any, name: str, writable: bool = False) -> Optional[Flat]:
    """The floating-point data of a buffer spec: an array, or [array, count, displacement, datatype] as in mpi4py, where
    all but the array may be left out or None, and count and displacement may be a pair."""
    if isinstance(spec, (list, tuple)):
        return _described(name, writable, *parts(spec, name))
    if spec is None or isinstance(spec, dict):
        raise SpecError(f"{name} must be one array, not {'None' if spec is None else 'a dict'}")
    return arrays.flatten(spec, name, writable)


def parts(spec: Any, name: str) -> tuple[Any, Any, Any, Any]:
    """(array, count, displacement, datatype) of a spec."""
    data, *rest = spec or [None]
    if not 1 <= len(rest) <= 3 or any(getattr(each, "shape", ()) for each in rest):
        raise SpecError(
            f"{name} must be one array, or [array, count, displacement, datatype] without what is left out, not {len(spec)} "
            f"of {', '.join(dict.fromkeys(type(each).__name__ for each in spec))}"
        )
    datatype = rest.pop() if len(rest) > 1 or isinstance(rest[0], (str, MPI.Datatype)) else None
    if len(rest) == 1 and isinstance(rest[0], (list, tuple)):
        rest = list(rest[0])
        if len(rest) != 2:
            raise SpecError(f"{name}: {tuple(rest)} must be a count and a displacement")
    return data, rest[0] if rest else None, rest[1] if len(rest) > 1 else None, datatype


def _described(name: str, writable: bool, data: Any, count: Any, displ: Any, datatype: Any) -> Optional[Flat]:
    char = None
    if datatype is not None:
        char = _typechar(datatype) if _plain(datatype) else None
        if char is None:
            return None
    view = arrays.flatten(data, name, writable)
    if char is not None and (view is None or arrays.label(view) != np.dtype(char).name):
        view = _reinterpret(data, char, name, writable)
    if view is None or count is displ is None:
        return view
    room = view.n // view.unit
    first = 0 if displ is None else _index(displ, f"{name}: displacement")
    number = room - first if count is None else _index(count, f"{name}: count")
    if not 0 <= first <= first + number <= room:
        beginning = f" from {first} on" if first else ""
        raise BufferError(f"{name}: count {number}{beginning} does not fit the buffer of {room} values")
    return view[first * view.unit : (first + number) * view.unit]


def _index(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise SpecError(f"{name} {value!r} must be a whole number") from None


def blocks(spec: Any, p: int, name: str, writable: bool = False, equal: bool = False) -> Optional[list[Flat]]:
    """One flat array for each of p ranks: equal parts of a buffer, or as counts and displacements say.

    An array, or [array, counts], [array, (counts, displs)], [array, counts, displs], each with or without a datatype
    behind; counts may be one number for all. `equal` parts may have one count, and the displacement of the first. None if the
    buffer is for MPI as it is.
    """
    if not isinstance(spec, (list, tuple)):
        spec = [spec]
    data, *rest = spec
    typed = bool(rest) and isinstance(rest[-1], (str, MPI.Datatype))
    view = flat([data, rest.pop()] if typed else data, name, writable)
    if view is None:
        return None
    unit = view.unit
    if len(rest) == 1 and isinstance(rest[0], (list, tuple)) and len(rest[0]) == 2 and (equal or np.ndim(rest[0][0])):
        rest = list(rest[0])
    counts, displs = [*rest, None, None][:2]
    if counts is None:
        if view.n % (p * unit):
            raise BufferError(f"{name}: {view.n // unit} values cannot be shared out evenly among {p} ranks")
        counts = view.n // (p * unit)
    first = 0
    if equal and displs is not None and np.ndim(displs) == 0:
        first, displs = _index(displs, f"{name}: displacement"), None
    counts = whole_numbers([counts] * p if np.ndim(counts) == 0 else counts, p, f"{name}: counts")
    displs = np.cumsum([first, *counts[:-1]]).tolist() if displs is None else displs
    displs = whole_numbers(displs, p, f"{name}: displacements")
    return [_block(view, unit * count, unit * displ, name) for count, displ in zip(counts, displs)]


def whole_numbers(values: Any, p: int, name: str) -> list[int]:
    """One for each of p ranks."""
    if np.ndim(values) != 1 or len(values) != p:
        raise BufferError(f"{name} {values!r} must be {p} numbers, one for each rank")
    return [_index(value, name) for value in values]


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
    if x.kind != out.kind or x.unit != out.unit:
        raise BufferError(f"sendbuf holds {arrays.label(x)} and recvbuf {arrays.label(out)}")
    if arrays.place(x.data) != arrays.place(out.data):
        raise BufferError("one of sendbuf and recvbuf is on a GPU, the other is not, or on another one")


def _words(spec: Any) -> str:
    """What a buffer seems to hold."""
    data, datatype = spec, None
    if isinstance(spec, (list, tuple)):
        data, _, _, datatype = parts(spec, "")
    if datatype is None:
        return str(getattr(data, "dtype", type(data).__name__))
    return datatype if isinstance(datatype, str) else datatype.Get_name()


def _plain(datatype: Any) -> bool:
    return isinstance(datatype, str) or (isinstance(datatype, MPI.Datatype) and datatype.is_predefined)


def _typechar(datatype: Any) -> Optional[str]:
    """The typecode of a floating-point or complex datatype, else None."""
    try:
        char = np.dtype(datatype if isinstance(datatype, str) else datatype.typestr).char
    except (TypeError, ValueError):
        return None
    return char if char in "efdFD" else None


def _reinterpret(data: Any, char: str, name: str, writable: bool) -> Optional[Flat]:
    """Bytes of another type that the spec declares to be of type `char`."""
    try:
        memory = memoryview(data).cast("B")
    except (TypeError, ValueError):
        return None
    if memory.nbytes % np.dtype(char).itemsize:
        return None
    return arrays.flatten(np.frombuffer(memory, char), name, writable)
