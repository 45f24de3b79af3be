"""An exchange with the neighbours in a graph.

Steps: 1. Bytes sent per rank: the encoded array, once to each neighbour. Encoded once, whatever their number.
Point-to-point messages, whose tags tell the segments apart: released MPIs have delivered wrong blocks in neighbour
all-to-all where a ring has one or two ranks.
"""

from __future__ import annotations

from typing import Any, Iterator


def lanes(port: Any, job: Any, tag: int) -> Iterator[Iterator[Any]]:
    """The schedule of each segment, to be run by the engine."""
    return (neighbor(port, job, lane, tag + lane) for lane in range(job.depth))


def neighbor(port: Any, job: Any, lane: int, tag: int) -> Iterator[Any]:
    """One segment: this rank's to all of job.destinations, theirs from all of job.sources, taken in that order.

    The arrays of different ranks may have different lengths: job.cut(rank, lane) is the range of a rank's array, or
    None where it has ended.
    """
    ranges = {r: job.cut(r, lane) for r in (*job.sources, port.rank)}
    inbox = {r: job.room(r, *ranges[r]) for r in job.sources if ranges[r]}
    arrivals = {r: port.borrow(inbox[r], r, tag) for r in inbox}
    wires, sends = [*inbox.values()], []
    if ranges[port.rank]:
        wire = job.encode(*ranges[port.rank])
        wires.append(wire)
        sends = [port.lend(wire, r, tag) for r in job.destinations]
        job.decode(port.rank, wire, *ranges[port.rank])
    for r in inbox:
        yield [arrivals[r]]
        job.decode(r, port.borrowed(arrivals[r], inbox[r]), *ranges[r])
        port.give_back([arrivals[r]])
    job.close(*ranges[port.rank] or (0, 0))
    yield sends
    job.release(wires)
