"""Allreduce of matrices by their factors (PowerSGD).

Two exact allreduces, one for each side of the factors, and of what travels whole with the first; all matrices together. Steps:
1 each by gathering, where that takes less time; else 2 by direct exchange. Bytes sent per rank: P-1 or 2 (P-1)/P times
the factors. The messages are plain values, added in the order of the ranks: every rank gets the same bits of the sums, however
they travel, and computes the same result from them.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from .cuts import chunks
from .direct import direct
from .gather import gather


def lowrank(port: Any, job: Any, tag: int, ways: Sequence[str]) -> Iterator[Any]:
    """The whole collective: `job` makes the numbers of each side, which are then the sums over all ranks, in one of these ways."""
    for side, (numbers, way) in enumerate(zip((job.left, job.right), ways)):
        part = numbers()
        if way == "gather":
            yield from gather(port, part, [(0, part.x.n)], tag + side)
        else:
            yield from direct(port, part, chunks(part.x.n, port.size, 64), tag + side)
    job.finish()
    yield ()
