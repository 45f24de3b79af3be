"""Allreduce around a ring.

Steps: 2 (P-1), each one message to the right-hand neighbour. Bytes sent per rank: 2 (P-1)/P of the encoded array,
as `direct`, to one partner only. A partial sum is encoded anew at each of P-1 hops, the complete sum once: the
variance grows with P, by about (P-1)/2 omega for independent arrays.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional


def ring(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    """One segment: cuts[r] = (lo, hi) is the part of it whose sum is complete at rank r."""
    total = yield from reduce_scatter(port, job, cuts, tag, job.reduce)
    yield from allgather(port, job, cuts, tag, total)


def reduce_scatter(port: Any, job: Any, cuts: Any, tag: int, finish: Callable[..., Any]) -> Any:
    """Each part travels from the rank behind its owner all around to the owner, every rank adding its own.

    Returns what `finish` (job.reduce or job.total) makes of the last partial sum; None if this rank's part is empty.
    """
    me, p = port.rank, port.size
    parts = [cuts[(me - 1 - step) % p] for step in range(p)]
    inbox = [job.room(lo, hi) if lo < hi else None for lo, hi in parts[1:]]
    arrivals = [_receive(port, wire, tag) for wire in inbox]
    outbox, sends = [], []
    for step in range(p - 1):
        if parts[step][0] == parts[step][1]:
            continue
        if step == 0:
            outbox.append(job.encode(*parts[0]))
        else:
            yield [arrivals[step - 1]]
            outbox.append(job.partial(*parts[step], [inbox[step - 1]], 1))
        sends.append(port.isend(outbox[-1], (me + 1) % p, tag))
    total = None
    if cuts[me][0] < cuts[me][1]:
        yield [arrivals[-1]]
        total = finish(*cuts[me], [inbox[-1]], 1)
    yield sends
    job.release([*outbox, *(wire for wire in inbox if wire is not None)])
    return total


def allgather(port: Any, job: Any, cuts: Any, tag: int, mine: Any) -> Iterator[Any]:
    """Every rank's wire to every rank, handed on unchanged and decoded by all."""
    me, p = port.rank, port.size
    parts = [cuts[(me - step) % p] for step in range(p)]
    wires = [mine, *(job.sum_room(lo, hi) if lo < hi else None for lo, hi in parts[1:])]
    arrivals = [_receive(port, wire, tag) for wire in wires[1:]]
    sends = []
    for step, wire in enumerate(wires):
        if wire is None:
            continue
        if step > 0:
            yield [arrivals[step - 1]]
        if step < p - 1:
            length = job.sum_length(wire, *parts[step])
            sends.append(port.isend(wire[:length], (me + 1) % p, tag))
        job.decode(wire, *parts[step])
    yield sends
    job.release(wire for wire in wires if wire is not None)


def _receive(port: Any, wire: Optional[Any], tag: int) -> Any:
    """The message from the left-hand neighbour; nothing is sent for empty parts."""
    return None if wire is None else port.irecv(wire, (port.rank - 1) % port.size, tag)
