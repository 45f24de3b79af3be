"""Allreduce by recursive halving and doubling.

With C = the largest power of two up to P. Steps: 2 log2 C, and 2 more if P > C: the ranks from C on hand their arrays to
one of the others first and get the sums from it last. Bytes sent per rank: 2 (C-1)/C of the encoded array, and one
array more for a rank with such a guest (a guest sends one array only). A partial sum is encoded anew in each of log2 C
halvings, the complete sum once: the variance grows by about log2(C)/2 omega for independent arrays.
"""

from __future__ import annotations

from itertools import accumulate
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
    everything = range(len(cuts))
    sums, at = _room(job, cuts, everything, job.sum_size)
    result = port.irecv(sums, host, tag)
    parts = _encode(job, cuts, everything, [[] for _ in cuts])
    yield [port.isend(parts, host, tag), result]
    _decode(job, cuts, sums, at, everything)
    job.release([parts, sums])


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
        held.append(_encode(job, cuts, range(give, give + half), came))
        sends += _send(port, held[-1], me ^ half, tag)
        yield from _receive(port, job, cuts, tag, me ^ half, range(keep, keep + half), came, held)

    sums, at = _room(job, cuts, range(core), job.sum_size)
    held.append(sums)
    if cuts[me][0] < cuts[me][1]:
        job.write_sum(*cuts[me], came[me], 0, sums[at[me] : at[me + 1]])
    _decode(job, cuts, sums, at, [me])
    while half < core:
        mine, theirs = me // half * half, (me ^ half) // half * half
        sends += _send(port, sums[at[mine] : at[mine + half]], me ^ half, tag)
        if at[theirs] < at[theirs + half]:
            yield [port.irecv(sums[at[theirs] : at[theirs + half]], me ^ half, tag)]
        _decode(job, cuts, sums, at, range(theirs, theirs + half))
        half *= 2
    if guest is not None:
        sends += _send(port, sums, guest, tag)
    yield sends
    job.release(held)


def _send(port: Any, wire: Any, dest: int, tag: int) -> list[Any]:
    return [port.isend(wire, dest, tag)] if wire.size else []


def _receive(
    port: Any, job: Any, cuts: Any, tag: int, source: int, parts: range, came: list[list[Any]], held: list[Any]
) -> Iterator[Any]:
    """One message with somebody's partial sums of these parts."""
    packed, at = _room(job, cuts, parts, job.part_size)
    held.append(packed)
    if packed.size:
        yield [port.irecv(packed, source, tag)]
    for c, begin, end in zip(parts, at, at[1:]):
        came[c].append(packed[begin:end])


def _encode(job: Any, cuts: Any, parts: range, came: list[list[Any]]) -> Any:
    """One message with these parts: this rank's own values and what came for them."""
    packed, at = _room(job, cuts, parts, job.part_size)
    for c, begin, end in zip(parts, at, at[1:]):
        if came[c] and begin < end:
            job.write_partial(*cuts[c], came[c], 0, packed[begin:end])
        elif begin < end:
            job.write_part(*cuts[c], packed[begin:end])
    return packed


def _decode(job: Any, cuts: Any, sums: Any, at: Sequence[int], parts: Sequence[int]) -> None:
    for c in parts:
        if cuts[c][0] < cuts[c][1]:
            job.decode(sums[at[c] : at[c + 1]], *cuts[c])


def _room(job: Any, cuts: Any, parts: range, size: Callable[[int, int], int]) -> tuple[Any, list[int]]:
    """A buffer for the wires of these parts, one after the other, and where each begins and the last ends."""
    at = [0, *accumulate(size(*cuts[c]) for c in parts)]
    return job.space(at[-1]), at
