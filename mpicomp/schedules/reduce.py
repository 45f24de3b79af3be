"""Reduce: the root gets the sum of all ranks' arrays.

direct: 2 steps (a part to each rank, its sum to the root). Each rank sends at most one encoded array, the root receives
2 (P-1)/P of one; each value is encoded twice, those of the root's own part once.
server: 1 step, every other rank sends its encoded array to the root, which receives P-1; each value is encoded once.
"""

from __future__ import annotations

from typing import Any, Iterator


def direct(port: Any, job: Any, cuts: Any, tag: int, root: int) -> Iterator[Any]:
    """One segment: cuts[r] = (lo, hi) is the part of it that rank r sums."""
    me = port.rank
    peers = [(me + step) % port.size for step in range(1, port.size)]
    owners = [r for r in peers if cuts[r][0] < cuts[r][1]]
    mine = cuts[me][0] < cuts[me][1]
    inbox = {r: job.room(*cuts[me]) for r in peers} if mine else {}
    arrivals = [port.irecv(inbox[r], r, tag) for r in inbox]
    held, sends = [*inbox.values()], []
    for r in owners:
        held.append(job.encode(*cuts[r]))
        sends.append(port.isend(held[-1], r, tag))
    sums = {r: job.sum_room(*cuts[r]) for r in owners} if me == root else {}
    results = {r: port.irecv(sums[r], r, tag) for r in sums}
    if mine:
        yield arrivals
        wires = [inbox[r] for r in sorted(inbox)]
        if me == root:
            job.total(*cuts[me], wires, me)
        else:
            held.append(job.reduce(*cuts[me], wires, me))
            sends.append(port.isend(held[-1], root, tag))
    for r, result in results.items():
        yield [result]
        job.decode(sums[r], *cuts[r])
    yield sends
    job.release([*held, *sums.values()])


def server(port: Any, job: Any, cuts: Any, tag: int, root: int) -> Iterator[Any]:
    """One segment, part by part. The root adds in the order of the ranks, its own values exact."""
    for part in cuts:
        if part[0] == part[1]:
            continue
        if port.rank == root:
            workers = [r for r in range(port.size) if r != root]
            inbox = [job.room(*part) for _ in workers]
            yield [port.irecv(wire, r, tag) for wire, r in zip(inbox, workers)]
            job.total(*part, inbox, root)
            job.release(inbox)
        else:
            wire = job.encode(*part)
            yield [port.isend(wire, root, tag)]
            job.release([wire])


ALGORITHMS = {"direct": direct, "server": server}
