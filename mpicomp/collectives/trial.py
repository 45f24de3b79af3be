"""Whether compression is worth its time in a neighbour exchange: tried.

With few neighbours on one node MPI copies as fast as a codec works; on a network, or with a slow codec, it is another matter.
"""

from __future__ import annotations

from typing import Any, Callable

from .. import engine
from ..arrays import Flat, empty
from ..calibration import race
from . import untouched

PIECE = 1 << 20  # values to begin with;
LONG = 20e-3  # seconds that make these enough: slow links need no more, and fast ones what caches do not hold

GAIN = 0.95  # of MPI's time, or less: a draw is MPI's, which is exact

Exchange = Callable[[Flat, Flat], Any]  # of such arrays: a Call


def pays(comm: Any, port: Any, x: Flat, out: Flat, exchange: Exchange) -> bool:
    """The same on every rank; collective. May write to `out` what an exchange of x would, exactly or not."""
    raw = ours = 0.0
    if x.n > PIECE:
        rows = Flat(empty(out.n // x.n * PIECE, out.data.dtype, like=out.data), x.kind)
        raw, ours = _both(comm, port, x[:PIECE], rows, exchange)
    if raw < LONG:
        raw, ours = _both(comm, port, x, out, exchange)
    return ours <= GAIN * raw


def _both(comm: Any, port: Any, x: Flat, out: Flat, exchange: Exchange) -> tuple[float, float]:
    """Seconds by MPI, and compressed."""
    runs = {
        "raw": lambda: untouched.now(comm, "Neighbor_allgather", (x.data, out.data)),
        "ours": lambda: engine.wait(exchange(x, out).start(0, 0)),
    }
    took = race(port, runs, 2)
    return took["raw"], took["ours"]
