"""Allreduce by gathering everything: each rank sends its encoded array to all others, and everybody sums all.

Steps: 1. Bytes sent per rank: P-1 encoded arrays. Each value is encoded once, sums are never encoded: the smallest error,
and the fewest bytes where P is 2 or a sparse wire would grow by being summed. Best for few ranks or small messages.
"""

from __future__ import annotations

from typing import Any, Iterator


def gather(port: Any, job: Any, cuts: Any, tag: int) -> Iterator[Any]:
    """One segment, cuts[0]. Every rank adds in the order of the ranks, its own values as others see them."""
    (whole,) = cuts
    peers = [(port.rank + step) % port.size for step in range(1, port.size)]
    wires = {r: job.room(*whole) for r in peers}
    arrivals = [port.irecv(wires[r], r, tag) for r in reversed(peers)]
    wires[port.rank] = job.encode(*whole)
    sends = [port.isend(wires[port.rank], r, tag) for r in peers]
    yield arrivals
    job.total(*whole, [wires[r] for r in range(port.size)])
    yield sends
    job.release(wires.values())
