"""Allreduce by direct exchange.

Steps: 2 (all-to-all of chunks, all-gather of sums). Bytes sent per rank: 2 (P-1)/P of the encoded array.
Each value is encoded twice, whatever P is.
"""

from __future__ import annotations

from typing import Any, Iterator


def direct(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    """One segment: cuts[r] = (lo, hi) is the part of it that rank r sums and sends to everybody."""
    me = port.rank
    peers = [(me + step) % port.size for step in range(1, port.size)]
    owners = [r for r in peers if cuts[r][0] < cuts[r][1]]
    mine = cuts[me][0] < cuts[me][1]
    inbox = {r: job.room(*cuts[me]) for r in peers} if mine else {}
    arrivals = [port.irecv(inbox[r], r, tag) for r in inbox]
    sums = {r: job.sum_room(*cuts[r]) for r in owners}

    parts, sends = [], []
    for r in owners:
        parts.append(job.encode(*cuts[r]))
        sends.append(port.isend(parts[-1], r, tag))
    results = [port.irecv(sums[r], r, tag) for r in owners]
    if mine:
        yield arrivals
        total = job.reduce(*cuts[me], [inbox[r] for r in sorted(inbox)], me)
        sends += [port.isend(total, r, tag) for r in peers]
        parts.append(total)
        job.decode(total, *cuts[me])
    for r, result in zip(owners, results):
        yield [result]
        job.decode(sums[r], *cuts[r])
    yield sends
    job.release([*parts, *inbox.values(), *sums.values()])
