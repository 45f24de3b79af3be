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
    arrivals = {r: port.borrow(inbox[r], r, tag) for r in inbox}
    sums = {r: job.sum_room(*cuts[r]) for r in owners}

    parts, sends = [], []
    for r in owners:
        parts.append(job.encode(*cuts[r]))
        sends.append(port.lend(parts[-1], r, tag))
    results = [port.borrow(sums[r], r, tag) for r in owners]
    if mine:
        yield list(arrivals.values())
        total = job.reduce(*cuts[me], [port.borrowed(arrivals[r], inbox[r]) for r in sorted(inbox)], me)
        sends += [port.lend(total, r, tag) for r in peers]
        port.give_back(list(arrivals.values()))
        parts.append(total)
        job.decode(total, *cuts[me])
    for r, result in zip(owners, results):
        yield [result]
        job.decode(port.borrowed(result, sums[r]), *cuts[r])
        port.give_back([result])
    yield sends
    job.release([*parts, *inbox.values(), *sums.values()])
