"""Allgather: every rank's part to every rank. Each value is encoded once; all decode the same bytes, the sender too.

direct: 1 step, P-1 encoded parts sent by each rank. ring: P-1 steps, the same bytes to one partner, handed on unchanged.
"""

from __future__ import annotations

from typing import Any, Iterator

from .ring import allgather as _ring


def direct(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    """One segment: cuts[r] = (lo, hi) is the part of it that rank r has."""
    me = port.rank
    peers = [(me + step) % port.size for step in range(1, port.size)]
    wires = {r: job.room(*cuts[r]) for r in reversed(peers) if cuts[r][0] < cuts[r][1]}
    arrivals = {r: port.irecv(wires[r], r, tag) for r in wires}
    sends = []
    if cuts[me][0] < cuts[me][1]:
        wires[me] = job.encode(*cuts[me])
        sends = [port.isend(wires[me], r, tag) for r in peers]
        job.decode(wires[me], *cuts[me])
    for r in arrivals:
        yield [arrivals[r]]
        job.decode(wires[r], *cuts[r])
    yield sends
    job.release(wires.values())


def ring(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    lo, hi = cuts[port.rank]
    yield from _ring(port, job, cuts, tag, job.encode(lo, hi) if lo < hi else None)


ALGORITHMS = {"direct": direct, "ring": ring}
