"""How fast this machine's cores are at what collectives ask of them: for predictions."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Callable, Iterator

import numpy as np

from . import engine, simulation
from .arrays import Flat
from .codecs import Codec
from .codecs.base import Stream, Terms
from .ports.sim import Costs

TURNS = 5  # of which the median counts
WIRES = 3  # of a sum, besides own values
PIECE = 1 << 18  # values
MESSAGES = 200


def costs(codec: Codec, n: int) -> Costs:
    """Bytes of float32 values a second, on n of them, by pieces such as schedules ask for, one thread."""
    pieces = [(lo, min(lo + PIECE, n)) for lo in range(0, n, PIECE)]
    x, out = _values(n), Flat(np.ones(n, np.float32), "f32")
    wires = [[np.ones(codec.size(hi - lo, "f32"), np.uint8) for lo, hi in pieces] for _ in range(WIRES + 1)]
    cuts = [(x[lo:hi], out[lo:hi], *each) for (lo, hi), *each in zip(pieces, *wires)]

    def seconds(job: Callable[..., Any]) -> float:
        return _seconds(lambda: [job(*cut) for cut in cuts])

    for mine in wires:
        for (lo, hi), wire in zip(pieces, mine):
            codec.encode_into(x[lo:hi], wire, Stream(1))
    encode = seconds(lambda own, out, wire, *wires: codec.encode_into(own, wire, Stream(1)))
    decode = seconds(lambda own, out, wire, *wires: codec.decode_into(wire, out))
    reduce = seconds(
        lambda own, out, wire, *wires: codec.reduce_into(Terms(wires, 0, own, own.n, "f32"), 1.0, wire, Stream(1))
    )
    return Costs(4 * n / encode, 4 * n / decode, (WIRES + 1) * 4 * n / reduce)


def factoring(spec: Any, shape: tuple[int, ...]) -> float:
    """Seconds of a rank's arithmetic for a matrix that travels by its factors."""
    xs = [_values(shape[0] * shape[1]).data.reshape(shape)] * 2
    return _seconds(lambda: simulation.allreduce(xs, codec=spec, algorithm="lowrank")) / len(xs)


def message(others: int = 0) -> float:
    """Seconds of a core for a message that is sent or received, by a schedule in which a rank sends to itself. With `others`,
    after so many bytes of other things, which leave as little of the caches as large arrays do."""
    from mpi4py import MPI

    from .ports.mpi import port_of

    port, one, other = port_of(MPI.COMM_SELF), *np.zeros((2, others), np.uint8)

    def schedule(tag: int) -> Iterator[Any]:
        out, room = port.pool.get(8), port.pool.get(8)
        handles = [port.irecv(room, 0, tag), port.isend(out, 0, tag)]
        yield handles
        port.pool.put(out)
        port.pool.put(room)

    times = []
    for tag in range(MESSAGES):
        one[:] = other
        start = time.thread_time()
        engine.wait(engine.Run(port, [schedule(1 + tag)]))
        times.append(time.thread_time() - start)
    return median(times) / 2


def _values(n: int) -> Flat:
    return Flat(np.random.default_rng(0).standard_normal(n, dtype=np.float32), "f32")


def _seconds(job: Callable[[], Any]) -> float:
    """Of this thread on its core: the median of some turns, after one that is not counted."""
    times = []
    for _ in range(TURNS + 1):
        start = time.thread_time()
        job()
        times.append(time.thread_time() - start)
    return median(times[1:])
