"""Allreduce through one rank: the master and the workers of distributed SGD.

Steps: 2 (everybody to the root, the root to everybody). Bytes: each worker sends one array in the up-link codec, the root
sends P-1 in the down-link codec, so its link is the bottleneck. Each value is encoded twice, whatever P is.
"""

from __future__ import annotations

from typing import Any, Iterator


def server(port: Any, job: Any, cuts: Any, tag: int, root: int = 0) -> Iterator[Any]:
    """One segment, cuts[0]. The root adds in the order of the ranks, its own values exact."""
    (whole,) = cuts
    if port.rank == root:
        yield from _master(port, job, whole, tag)
    else:
        yield from _worker(port, job, whole, tag, root)


def _master(port: Any, job: Any, whole: Any, tag: int) -> Iterator[Any]:
    workers = [r for r in range(port.size) if r != port.rank]
    inbox = [job.room(*whole) for _ in workers]
    yield [port.irecv(wire, r, tag) for wire, r in zip(inbox, workers)]
    total = job.reduce(*whole, inbox, port.rank)
    sends = [port.isend(total, r, tag) for r in workers]
    job.decode(total, *whole)
    yield sends
    job.release([*inbox, total])


def _worker(port: Any, job: Any, whole: Any, tag: int, root: int) -> Iterator[Any]:
    total = job.sum_room(*whole)
    result = port.irecv(total, root, tag)
    part = job.encode(*whole)
    yield [result, port.isend(part, root, tag)]
    job.decode(total, *whole)
    job.release([part, total])
