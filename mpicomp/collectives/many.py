"""Allreduce of many arrays at once: `comm.Allreduce([g1, g2, ...])` or of a dict, in place.

Arrays of the same type and codec are fused into one collective, which reads and writes them where they are; only small
ones are copied, into one and back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from mpi4py import MPI

from .. import agreement, buffers
from ..arrays import Flat, check_apart, detached, place
from ..codecs import Codec, LowRank
from ..codecs import codec as make_codec
from ..codecs.base import divide
from ..codecs.raw import Raw
from ..engine import Run
from ..errors import BufferError, CodecError
from ..fusion import SMALL, Fused, FusedReduction
from ..ports.base import Finish
from ..ports.device import in_turn
from ..ports.mpi import port_of
from ..request import Together
from ..settings import Settings
from . import base, untouched
from .allreduce import Call
from .staged import on_gpu

EXACT = 1 << 12  # arrays of fewer values are exact by default where the codec drops values or needs matrices


class FusedCall(Call):
    make = FusedReduction

    def start(self, seed: int, call: int, finish: Optional[Finish] = None) -> Run:
        if self.plan.algorithm == "raw":
            return super().start(seed, call, finish)

        def finished(error: Optional[BaseException]) -> None:
            if error is None:
                self.out.scatter()
            if finish is not None:
                finish(error)

        with in_turn(self.x.data):
            self.x.gather()
        return super().start(seed, call, finished)


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
        given: dict[str, Any] = {}
        flats: dict[str, Flat] = {}
        untouched, empty = [], 0
        for name, x in _named(many):
            flat = buffers.flat(x, f"array {name!r}", writable=True)
            if flat is None:
                _check_plain(x)
                untouched.append(x)
            elif not flat.n:
                empty += 1
            else:
                given[name], flats[name] = x, flat
        _check(flats)
        groups = _groups(port, given, flats, codec, comm.codec, change)
        words = [f"{len(names)} {kind} by {chosen.codec}" for kind, chosen, names in groups]
        _meet(port, words, untouched, empty)
        calls = []
        for _, chosen, names in groups:
            whole = Fused([flats[name] for name in names], chosen.grain, chosen.packs, names)
            calls.append(FusedCall(port, chosen, whole, whole, mean))
        return Batch(calls, untouched)


Group = Tuple[str, Settings, List[str]]  # kind, how its arrays travel, their names


def _groups(
    port: Any,
    given: Mapping[str, Any],
    flats: Mapping[str, Flat],
    codec: Any,
    default: Codec,
    change: Callable[[Any], Settings],
) -> list[Group]:
    """Which arrays travel together. Thought about once for each list, but by a rule that is a function."""
    if callable(codec) or isinstance(codec, (Mapping, list)):
        return _group(given, flats, codec, default, change)
    key = ("groups", change(None), codec, *[(name, flat.kind, flat.shape, flat.unit) for name, flat in flats.items()])
    if key not in port.plans:
        port.plans[key] = _group(given, flats, codec, default, change)
    return port.plans[key]


def _group(
    given: Mapping[str, Any], flats: Mapping[str, Flat], codec: Any, default: Codec, change: Callable[[Any], Settings]
) -> list[Group]:
    same: dict[Settings, Settings] = {}
    groups: dict[Any, Group] = {}
    rule = rule_of(codec, default)

    @cache
    def settings(rule: Any) -> Settings:
        chosen = change(rule)
        if chosen.algorithm == "lowrank" and not isinstance(chosen.codec, LowRank):
            chosen = chosen.override(algorithm="auto")  # what is no matrix goes its own way
        if isinstance(chosen.codec, Raw) and isinstance(chosen.down, Raw):
            chosen = chosen.override(feedback=False)  # nothing is lost that could be remembered
        return same.setdefault(chosen, chosen)

    for name, flat in flats.items():
        chosen = settings(rule(name, given[name], flat.shape[: len(flat.shape) - (flat.unit > 1)]))
        if flat.kind not in chosen.codec.kinds or flat.kind not in chosen.down.kinds:
            chosen = settings("raw")
        groups.setdefault((flat.kind, id(chosen)), (flat.kind, chosen, []))[2].append(name)
    return [*groups.values()]


def _check_plain(x: Any) -> None:
    """Raise now what MPI would, when other arrays are summed and other ranks wait."""
    data = x[0] if isinstance(x, (list, tuple)) else x
    if not on_gpu([data]):
        MPI.memory.frombuffer(detached(data), readonly=False)


def _meet(port: Any, groups: list[str], left: list[Any], empty: int) -> None:
    """The ranks agree how many collectives these are, the first time, before any of them begins."""
    words = [*groups, *(f"{untouched.nbytes(x)} bytes by MPI" for x in left)]
    signature = f"Allreduce of many arrays: {', '.join(words)}, {empty} empty"
    digest = agreement.digest(signature)
    if not agreement.known(port, digest):
        base.meet(port, signature, digest, False, "Allreduce")


def _named(many: Any) -> Sequence[tuple[str, Any]]:
    """Each array with its name; a dict's in the order of the names, which need not be that in which each rank filled it."""
    if isinstance(many, Mapping):
        found = sorted(((str(name), x) for name, x in many.items()), key=lambda item: item[0])
        for (name, _), (other, _) in zip(found, found[1:]):
            if name == other:
                raise BufferError(f"two arrays have the name {name!r}")
        return found
    return [(str(index), x) for index, x in enumerate(many)]


def _check(flats: dict[str, Flat]) -> None:
    """All in one sort of memory, and none in that of another: it would be summed twice."""
    if len({place(flat.data) for flat in flats.values()}) > 1:
        raise BufferError("some of the arrays are on a GPU, others are not, or on another one: sum them in two calls")
    check_apart(flats, "summed")


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "shape")


def rule_of(given: Any, default: Codec) -> Callable[[str, Any, tuple[int, ...]], Any]:
    """What finds the codec of an array by its name, itself and its shape: given(name, x), or that of the first pattern that fits
    the name, or the same for all.

    Codecs that drop values or need matrices leave vectors and small arrays exact, unless a rule names one for them.
    """
    patterns = given if isinstance(given, Mapping) else {}
    named = (
        given
        if callable(given)
        else lambda name, x: next((c for p, c in patterns.items() if fnmatchcase(name, p)), None)
    )
    same = None if callable(given) or given is patterns else tuple(given) if isinstance(given, list) else given
    dense = all(map(_dense, same if isinstance(same, tuple) else (default if same is None else same,)))

    def rule(name: str, x: Any, shape: tuple[int, ...]) -> Any:
        found = named(name, x)
        if isinstance(found, (dict, set)):
            raise CodecError(f"the rule gives {found!r} for array {name!r}, which is no codec")
        if found is not None:
            return tuple(found) if isinstance(found, list) else found
        return same if dense or (len(shape) > 1 and math.prod(shape) >= EXACT) else "raw"

    return rule if callable(given) or patterns or not dense else lambda name, x, shape: same


@cache
def _dense(spec: Any) -> bool:
    return make_codec(spec).dense


def request(batch: Batch, carried: Callable[[FusedCall], Any], left: Callable[[Any, Any], Any]) -> Together:
    """The requests of a batch as one: carried(call) makes that of a call, left(array, call or None) that of an array
    which MPI sums."""
    made = []
    for call in batch.calls:
        raw = call.plan.algorithm == "raw"
        made += [left(flat.data, call) for flat in call.x.arrays] if raw else [carried(call)]
    return Together([*made, *(left(x, None) for x in batch.untouched)])


def sum_raw(comm: MPI.Intracomm, call: Call, mean: bool) -> None:
    """The arrays of a call by MPI's own Allreduce: small ones packed into one message, large ones each in place."""
    with in_turn(call.x.data):
        _sum_raw(comm, call, mean)


def _sum_raw(comm: MPI.Intracomm, call: Call, mean: bool) -> None:
    flats = call.x.arrays
    small = [flat for flat in flats if flat.nbytes <= SMALL]
    if len(small) > 1:
        packed = np.concatenate([flat.data for flat in small])
        untouched.now(comm, "Allreduce", (MPI.IN_PLACE, packed, MPI.SUM), call)
        at = 0
        for flat in small:
            flat.data[:] = packed[at : at + flat.n]
            at += flat.n
    for flat in flats if len(small) < 2 else [flat for flat in flats if flat.nbytes > SMALL]:
        untouched.now(comm, "Allreduce", (MPI.IN_PLACE, flat.data, MPI.SUM), call)
    if mean:
        for flat in flats:
            divide(flat.data, comm.size)


def check(many: Any, recvbuf: Optional[Any]) -> Any:
    """The arrays to be summed in place, given as the only buffer or behind MPI.IN_PLACE."""
    if recvbuf is None:
        return many
    if buffers.in_place(many):
        return recvbuf
    raise BufferError("lists and dicts of arrays are summed in place: pass them alone, or behind MPI.IN_PLACE")
