"""Allreduce of matrices by their factors (PowerSGD).

Steps: 4 (two exact allreduces by direct exchange, one for each side of the factors). Bytes sent per rank: 2 (P-1)/P of the
factors, and of what travels whole, all matrices together. The messages are plain sums: every rank gets the same bits of
them, and computes the same result from them.
"""

from __future__ import annotations

from typing import Any, Iterator

from .cuts import chunks
from .direct import direct


def lowrank(port: Any, job: Any, tag: int) -> Iterator[Any]:
    """The whole collective: `job` makes the numbers of each side, which are then the sums over all ranks."""
    for side, numbers in enumerate((job.left, job.right)):
        part = numbers()
        yield from direct(port, part, chunks(part.x.n, port.size, 64), tag + side)
    job.finish()
    yield ()
