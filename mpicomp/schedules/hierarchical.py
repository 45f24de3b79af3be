"""Allreduce in two levels: exact within each node, compressed between the nodes.

Of M nodes with L ranks each, one rank a node leads each segment, in turn. Steps: 4 (the node's arrays to the leader, the two
of `direct` among the leaders, the sums to the node). Bytes sent between nodes: 2 (M-1)/M of the encoded array a node,
whatever L is; within a node 2 (L-1) plain arrays, to the leader in pieces, so that it needs little memory for them. What is
encoded is the sum of a node, so the error is that of M ranks.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional

from ..ports.base import Port
from .cuts import Cuts, slices
from .direct import direct

ROOM = 1 << 18  # values of all members that a leader holds at a time, for each segment that is under way
LEAST = 1 << 13  # values of a piece: with fewer, messages cost more than what they carry


class Leaders(Port):
    """The port among some ranks of another one."""

    def __init__(self, port: Any, ranks: list[int]):
        self._port, self._ranks = port, ranks
        self.rank, self.size = ranks.index(port.rank), len(ranks)

    def isend(self, buffer: Any, dest: int, tag: int) -> Any:
        return self._port.isend(buffer, self._ranks[dest], tag)

    def irecv(self, buffer: Any, source: int, tag: int) -> Any:
        return self._port.irecv(buffer, self._ranks[source], tag)


def nodes(port: Any, nodes_of: Optional[int] = None) -> list[list[int]]:
    """The ranks of each node: as the port found them, or `nodes_of` consecutive ranks each."""
    node_of = port.nodes if nodes_of is None else [rank // nodes_of for rank in range(port.size)]
    found: dict[int, list[int]] = {}
    for rank, node in enumerate(node_of):
        found.setdefault(node, []).append(rank)
    return list(found.values())


def owners(port: Any, nodes_of: Optional[int] = None) -> int:
    """The number of nodes: each owns a part."""
    return len(nodes(port, nodes_of))


def hierarchical(port: Any, job: Any, cuts: Any, tag: int, nodes_of: Optional[int] = None) -> Iterator[Any]:
    """One segment: cuts[m] is the part that node m sums. Which rank of a node leads does not change the bits."""
    groups = nodes(port, nodes_of)
    leaders = [ranks[tag % len(ranks)] for ranks in groups]
    mine = next(index for index, ranks in enumerate(groups) if port.rank in ranks)
    parts = [part for part in cuts if part[0] < part[1]]
    most = max(ROOM // max(len(groups[mine]) - 1, 1), LEAST)
    pieces = [piece for some in slices(parts, 1, most) for piece in some if piece[0] < piece[1]]
    if port.rank != leaders[mine]:
        yield [port.isend(plain, leaders[mine], tag) for piece in pieces for plain in job.plain(*piece)]
        # not before: the result may be where x is
        yield [port.irecv(plain, leaders[mine], tag) for part in parts for plain in job.plain_out(*part)]
        return
    members = [r for r in groups[mine] if r != port.rank]
    yield from _sum(port, job, pieces, tag, members, groups[mine].index(port.rank), len(groups) == 1)
    if len(groups) > 1:
        yield from direct(Leaders(port, leaders), job.among(mine, len(groups)), cuts, tag)
    yield [port.isend(plain, r, tag) for part in parts for plain in job.plain_out(*part) for r in members]


def _sum(port: Any, job: Any, pieces: Cuts, tag: int, members: list[int], position: int, last: bool) -> Iterator[Any]:
    """The node's sum, in the order of its ranks."""
    for piece in pieces:
        inbox = [[job.space(plain.nbytes) for plain in job.plain(*piece)] for _ in members]
        yield [port.irecv(wire, r, tag) for wires, r in zip(inbox, members) for wire in wires]
        job.plain_total(*piece, inbox, position, last)
        job.release(wire for wires in inbox for wire in wires)
