"""How fast this machine's cores are at what collectives ask of them: for predictions."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Callable

import numpy as np

from . import simulation
from .arrays import Flat
from .codecs import Codec
from .codecs.base import Stream, Terms
from .ports.sim import Costs

TURNS = 5  # of which the median counts
WIRES = 3  # of a sum, besides own values
MESSAGES = 200


def costs(codec: Codec, n: int) -> Costs:
    """Bytes of float32 values a second, on n of them, one thread."""
    x, out = _values(n), Flat(np.ones(n, np.float32), "f32")
    wires = [np.ones(codec.size(n, "f32"), np.uint8) for _ in range(WIRES + 1)]
    for wire in wires:
        codec.encode_into(x, wire, Stream(1))
    terms = Terms(wires[1:], 0, x, n, "f32")
    encode = _seconds(lambda: codec.encode_into(x, wires[0], Stream(1)))
    decode = _seconds(lambda: codec.decode_into(wires[0], out))
    reduce = _seconds(lambda: codec.reduce_into(terms, 1.0, wires[0], Stream(1)))
    return Costs(4 * n / encode, 4 * n / decode, (WIRES + 1) * 4 * n / reduce)


def factoring(spec: Any, shape: tuple[int, ...]) -> float:
    """Seconds of a rank's arithmetic for a matrix that travels by its factors."""
    xs = [_values(shape[0] * shape[1]).data.reshape(shape)] * 2
    return _seconds(lambda: simulation.allreduce(xs, codec=spec, algorithm="lowrank")) / len(xs)


def message() -> float:
    """Seconds of a core for a message that is sent or received, by a rank that sends to itself."""
    from mpi4py import MPI

    from .ports.mpi import port_of

    port, out, room = port_of(MPI.COMM_SELF), np.zeros(8, np.uint8), np.zeros(8, np.uint8)

    def exchange() -> None:
        for _ in range(MESSAGES):
            handles = [port.irecv(room, 0, 1), port.isend(out, 0, 1)]
            while not port.done(handles):
                pass

    return _seconds(exchange) / MESSAGES / 2


def _values(n: int) -> Flat:
    return Flat(np.random.default_rng(0).standard_normal(n, dtype=np.float32), "f32")


def _seconds(job: Callable[[], Any]) -> float:
    """The median of some turns, after one that is not counted."""
    times = []
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return median(times[1:])
