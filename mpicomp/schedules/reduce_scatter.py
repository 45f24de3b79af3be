"""Reduce_scatter: every rank gets the sum of its part.

direct: 1 step, (P-1)/P of the encoded array sent by each rank; each value is encoded once, the sum not at all.
ring: P-1 steps, the same bytes to one partner; partial sums are encoded at each hop (see ring.py).
"""

from __future__ import annotations

from typing import Any, Iterator

from .ring import reduce_scatter as _ring


def direct(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    """One segment: cuts[r] = (lo, hi) is the part of it that rank r gets."""
    me = port.rank
    peers = [(me + step) % port.size for step in range(1, port.size)]
    mine = cuts[me][0] < cuts[me][1]
    inbox = {r: job.room(*cuts[me]) for r in peers} if mine else {}
    arrivals = [port.irecv(inbox[r], r, tag) for r in inbox]
    parts, sends = [], []
    for r in peers:
        if cuts[r][0] < cuts[r][1]:
            parts.append(job.encode(*cuts[r]))
            sends.append(port.isend(parts[-1], r, tag))
    if mine:
        yield arrivals
        job.total(*cuts[me], [inbox[r] for r in sorted(inbox)], me)
    yield sends
    job.release([*parts, *inbox.values()])


def ring(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    yield from _ring(port, job, cuts, tag, job.total)


ALGORITHMS = {"direct": direct, "ring": ring}
