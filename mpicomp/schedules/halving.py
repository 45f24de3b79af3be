"""Allreduce by recursive halving and doubling.

With C = the largest power of two up to P. Steps: 2 log2 C, and 2 more if P > C: the ranks from C on hand their arrays to
one of the others first and get the sums from it last. Bytes sent per rank: 2 (C-1)/C of the encoded array, and one
array more for a rank with such a guest (a guest sends one array only). A partial sum is encoded anew in each of log2 C
halvings, the complete sum once: the variance grows by about log2(C)/2 omega for independent arrays.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence


def owners(port: Any) -> int:
    """How many ranks own a part: the largest power of two up to P."""
    return 1 << (port.size.bit_length() - 1)


def halving(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    """One segment: cuts[r] = (lo, hi) is the part of it whose sum is complete at rank r."""
    if port.rank < len(cuts):
        yield from _host(port, job, cuts, tag)
    else:
        yield from _guest(port, job, cuts, tag)


def _guest(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    host = port.rank - len(cuts)
    sums = job.sum_space(_most(cuts, range(len(cuts)), job.sum_size))
    result = port.irecv(sums, host, tag)
    room, used = _encode(job, cuts, range(len(cuts)), [[] for _ in cuts])
    yield [port.isend(room[:used], host, tag), result]
    _decode(job, cuts, sums, _held(host, len(cuts)))
    job.release([room, sums])


def _host(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    """Halve: send the partial sums of one half of the parts, keep the other half. Then double, back through the same."""
    me, core = port.rank, len(cuts)
    guest = me + core if me + core < port.size else None
    came: list[list[Any]] = [[] for _ in cuts]  # the wires that came for each part
    held: list[Any] = []
    if guest is not None:
        yield from _receive(port, job, cuts, tag, guest, range(core), came, held)
    sends = []
    half = core
    while half > 1:
        half //= 2
        keep, give = me // half * half, (me ^ half) // half * half
        room, used = _encode(job, cuts, range(give, give + half), came)
        held.append(room)
        sends += _send(port, room[:used], me ^ half, tag)
        yield from _receive(port, job, cuts, tag, me ^ half, range(keep, keep + half), came, held)

    sums = job.sum_space(_most(cuts, range(core), job.sum_size))
    held.append(sums)
    if cuts[me][0] < cuts[me][1]:
        job.write_sum(*cuts[me], came[me], 0, sums[: job.sum_size(*cuts[me])])
    used = _decode(job, cuts, sums, [me])
    while half < core:  # what comes is put behind what is there, and all of it is handed on
        sends += _send(port, sums[:used], me ^ half, tag)
        theirs = _held(me ^ half, half)
        most = _most(cuts, theirs, job.sum_size)
        if most:
            room = sums[used : used + most]
            yield [port.irecv(room, me ^ half, tag)]
            used += _decode(job, cuts, room, theirs)
        half *= 2
    if guest is not None:
        sends += _send(port, sums[:used], guest, tag)
    yield sends
    job.release(held)


def _held(rank: int, half: int) -> list[int]:
    """The parts whose sums a rank has when it has `half` of them, in the order in which they came to it."""
    return [rank ^ step for step in range(half)]


def _send(port: Any, wire: Any, dest: int, tag: int) -> list[Any]:
    return [port.isend(wire, dest, tag)] if wire.size else []


def _receive(
    port: Any, job: Any, cuts: Any, tag: int, source: int, parts: range, came: list[list[Any]], held: list[Any]
) -> Iterator[Any]:
    """One message with somebody's partial sums of these parts."""
    room, at = job.part_space(_most(cuts, parts, job.part_size)), 0
    held.append(room)
    if room.size:
        yield [port.irecv(room, source, tag)]
    for c in _filled(cuts, parts):
        end = at + job.part_length(room[at : room.size], *cuts[c])
        came[c].append(room[at:end])
        at = end


def _encode(job: Any, cuts: Any, parts: range, came: list[list[Any]]) -> tuple[Any, int]:
    """A buffer with these parts, one after the other, and where they end: this rank's own values and what came for them."""
    room, at = job.part_space(_most(cuts, parts, job.part_size)), 0
    for c in _filled(cuts, parts):
        wire = room[at : at + job.part_size(*cuts[c])]
        if came[c]:
            job.write_partial(*cuts[c], came[c], 0, wire)
        else:
            job.write_part(*cuts[c], wire)
        at += job.part_length(wire, *cuts[c])
    return room, at


def _decode(job: Any, cuts: Any, sums: Any, parts: Sequence[int]) -> int:
    """The sums of these parts, one after the other, into the result; how many bytes they have."""
    at = 0
    for c in _filled(cuts, parts):
        end = at + job.sum_length(sums[at : sums.size], *cuts[c])
        job.decode(sums[at:end], *cuts[c])
        at = end
    return at


def _most(cuts: Any, parts: Sequence[int], size: Callable[[int, int], int]) -> int:
    """The most bytes that the wires of these parts have."""
    return sum(size(*cuts[c]) for c in parts)


def _filled(cuts: Any, parts: Sequence[int]) -> list[int]:
    return [c for c in parts if cuts[c][0] < cuts[c][1]]
