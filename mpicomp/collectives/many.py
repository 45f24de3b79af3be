"""Allreduce of many arrays at once: `comm.Allreduce([g1, g2, ...])` or of a dict, in place.

Arrays of the same type and codec are fused into one collective, which reads and writes them where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
from mpi4py import MPI

from .. import buffers
from ..arrays import Flat, is_cupy
from ..codecs import Codec
from ..codecs import codec as make_codec
from ..codecs.base import divide
from ..errors import BufferError
from ..fusion import Fused, FusedReduction
from ..ports.mpi import port_of
from ..settings import Settings
from . import base, untouched
from .allreduce import Call

EXACT = 1 << 12  # arrays of fewer values are exact by default where the codec drops values or needs matrices


class FusedCall(Call):
    make = FusedReduction


class Batch(NamedTuple):
    """Calls to start, and arrays that MPI sums as they are."""

    calls: list[FusedCall]
    untouched: list[Any]


def is_many(x: Any) -> bool:
    """Whether x is a dict of arrays or a list of them, and not one of mpi4py's buffer specs."""
    if isinstance(x, Mapping):
        return True
    return isinstance(x, (list, tuple)) and all(_is_array(item) for item in x)


def prepare(comm: Any, many: Any, codec: Any, change: Callable[[Any], Settings], mean: bool = False) -> Batch:
    """Checked calls for all arrays: one for each type and codec among them."""
    port = port_of(comm)
    with base.telling(port):
        named = dict(many) if isinstance(many, Mapping) else {str(index): x for index, x in enumerate(many)}
        groups: dict[Any, list[Flat]] = {}
        untouched = []
        for name, x in named.items():
            flat = buffers.flat(x, f"array {name!r}", writable=True)
            if flat is None:
                untouched.append(x)
            elif flat.n:
                chosen = change(_rule(codec, comm.codec, str(name), x))
                able = flat.kind in chosen.codec.kinds and flat.kind in chosen.down.kinds
                groups.setdefault((flat.kind, chosen if able else change("raw")), []).append(flat)
        if len({is_cupy(flat.data) for flats in groups.values() for flat in flats}) > 1:
            raise BufferError("some of the arrays are on a GPU, others are not: sum them in two calls")
        calls = []
        for (_, chosen), flats in groups.items():
            whole = Fused(flats, chosen.grain)
            calls.append(FusedCall(port, chosen, whole, whole, mean))
        return Batch(calls, untouched)


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "shape")


def _rule(rule: Any, default: Codec, name: str, x: Any) -> Any:
    """The codec of one array: rule(name, x), or of the first pattern that fits its name, or the same for all."""
    if isinstance(rule, Mapping):
        rule = next((value for pattern, value in rule.items() if fnmatchcase(name, pattern)), None)
    elif callable(rule):
        rule = rule(name, x)
    elif not _fits(make_codec(rule) if isinstance(rule, str) else rule or default, x):
        rule = "raw"
    return rule


def _fits(codec: Any, x: Any) -> bool:
    """Codecs that drop values or need matrices leave vectors and small arrays exact, unless a rule says otherwise."""
    return getattr(codec, "dense", True) or (len(x.shape) > 1 and int(np.prod(x.shape)) >= EXACT)


def sum_raw(comm: MPI.Intracomm, call: Call, mean: bool) -> None:
    """The arrays of a call by MPI's own Allreduce: small ones packed into one message, large ones each in place."""
    flats = call.x.flats
    small = [flat for flat in flats if flat.nbytes <= 1 << 16]
    if len(small) > 1:
        packed = np.concatenate([flat.data for flat in small])
        untouched.now(comm, "Allreduce", (MPI.IN_PLACE, packed, MPI.SUM), call)
        at = 0
        for flat in small:
            flat.data[:] = packed[at : at + flat.n]
            at += flat.n
    for flat in flats if len(small) < 2 else [flat for flat in flats if flat.nbytes > 1 << 16]:
        untouched.now(comm, "Allreduce", (MPI.IN_PLACE, flat.data, MPI.SUM), call)
    if mean:
        for flat in flats:
            divide(flat.data, comm.size)


def check(many: Any, recvbuf: Optional[Any]) -> Any:
    """The arrays to be summed in place, given as the only buffer or behind MPI.IN_PLACE."""
    if recvbuf is None:
        return many
    if many is MPI.IN_PLACE:
        return recvbuf
    raise BufferError("lists and dicts of arrays are summed in place: pass them alone, or behind MPI.IN_PLACE")
