"""Bcast: the root's array to every rank. Each value is encoded once; all decode the same bytes, the root too.

direct: 2 steps (a part to each rank, which hands it to all others). The root sends 2 (P-1)/P of the encoded array,
everybody else at most (P-2)/P. ring: P-1 steps, each rank hands the whole on to the next one; segments follow one another.
"""

from __future__ import annotations

from typing import Any, Iterator


def direct(port: Any, job: Any, cuts: Any, tag: int, root: int) -> Iterator[Any]:
    """One segment: cuts[r] = (lo, hi) is the part of it that reaches the others through rank r."""
    order = sorted(range(port.size), key=lambda r: r != port.rank)  # one's own part first: others wait for it
    parts = {r: cuts[r] for r in order if cuts[r][0] < cuts[r][1]}
    if port.rank == root:
        yield from _root(port, job, parts, tag)
        return
    wires = {r: job.room(*parts[r]) for r in parts}
    arrivals = {r: port.irecv(wires[r], root if r == port.rank else r, tag) for r in parts}
    sends = []
    for r in parts:
        yield [arrivals[r]]
        if r == port.rank:
            wire = wires[r][: job.part_length(wires[r], *parts[r])]
            sends = [port.isend(wire, other, tag) for other in range(port.size) if other not in (root, r)]
        job.decode(wires[r], *parts[r])
    yield sends
    job.release(wires.values())


def _root(port: Any, job: Any, parts: Any, tag: int) -> Iterator[Any]:
    """Each rank's part to it, then the root's own to all: a rank gets the two in this order."""
    wires, sends = [], []
    others = [(port.rank + step) % port.size for step in range(1, port.size)]
    for r in [r for r in (*others, port.rank) if r in parts]:
        wires.append(job.encode(*parts[r]))
        sends += [port.isend(wires[-1], dest, tag) for dest in (others if r == port.rank else [r])]
        job.decode(wires[-1], *parts[r])
    yield sends
    job.release(wires)


def ring(port: Any, job: Any, cuts: Any, tag: int, root: int) -> Iterator[Any]:
    """One segment, part by part, from rank to rank."""
    place = (port.rank - root) % port.size
    left, right = (port.rank - 1) % port.size, (port.rank + 1) % port.size
    parts = [cut for cut in cuts if cut[0] < cut[1]]
    wires = [job.encode(*part) if place == 0 else job.room(*part) for part in parts]
    arrivals = [port.irecv(wire, left, tag) for wire in wires] if place else []
    sends = []
    for index, part in enumerate(parts):
        if arrivals:
            yield [arrivals[index]]
        if place < port.size - 1:
            sends.append(port.isend(wires[index][: job.part_length(wires[index], *part)], right, tag))
        job.decode(wires[index], *part)
    yield sends
    job.release(wires)


ALGORITHMS = {"direct": direct, "ring": ring}
