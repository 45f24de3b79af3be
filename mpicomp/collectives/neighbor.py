"""Neighbour collectives: every neighbour's array in MPI's order, or their weighted average."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import numpy as np
from mpi4py import MPI

from .. import agreement, arrays, buffers, engine, exchange
from ..arrays import KINDS, Flat
from ..checks import number
from ..codecs import Codec, Raw
from ..codecs.base import as_kind
from ..engine import Run
from ..errors import BufferError
from ..exchange import Average, Exchange, Gather, Link, Remembering
from ..job import Randomness
from ..memory.extrapolation import Extrapolation
from ..memory.replica import Replicas
from ..planning import FLOOR, MPI_SUMS, NEAR
from ..ports.base import Finish
from ..ports.device import port_for
from ..ports.mpi import port_of
from ..request import MemoryPrequest, Prequest, Request
from ..schedules.neighbor import lanes
from ..settings import SettingError, Settings
from ..watching import Watch, WatchedJob, WatchedPort
from . import base, trial, untouched

MEMORIES = {memory.name: memory for memory in (Replicas, Extrapolation)}
REMEMBERED = 3  # the stage of random numbers of the first start with a memory; later starts count on


class Call:
    """One Neighbor_allgather(v) with its arguments checked. `raw` where MPI does it: it needs no codec there."""

    counted = True  # unless it is only tried

    def __init__(
        self, comm: Any, name: str, settings: Settings, x: Flat, rows: Sequence[Optional[Flat]], memory: Optional[str]
    ):
        self.comm, self.name, self.settings = comm, name, settings
        sources = comm._sources()
        self.x, self.rows = x, [(r, row) for r, row in zip(sources, rows) if r is not None and row is not None]
        varying = name.endswith("v")
        self.raw = memory is None and x.kind in MPI_SUMS and _for_mpi(settings, x, varying)
        lengths = {**{r: row.n for r, row in self.rows}, comm.rank: x.n}
        kind = x.kind if memory is None else exchange.wide_kind(x.kind)
        codecs = {r: _codec(comm, settings, n, kind, memory is not None) for r, n in lengths.items()}
        self.link = link(comm, lengths, codecs, kind, settings.segment, varying)
        self.memory: Any = MEMORIES[memory](comm.rank, lengths, kind, like=x.data) if memory else None
        self.words = (
            f"{name}({'' if varying else x.n} {KINDS[x.kind].label}, codec={settings.codec}, memory={memory}, "
            f"algorithm={settings.algorithm}, segment={settings.segment}"
        )

    @property
    def signature(self) -> str:
        """What all ranks must agree upon. MPI needs no seed, and a rank that knows a call to be MPI's asks about none:
        were one with a new seed asked about, ranks that give their buffers in another form would ask alone."""
        return f"{self.words}, seed={'any' if self.raw else self.settings.seed})"

    def settled(self) -> bool:
        """Whether nothing is left to be agreed upon, or MPI's own collectives are watched. Such calls are not numbered:
        once a rank knows that one is MPI's it looks no further."""
        return self.comm._watched or agreement.known(self.comm._port(), agreement.digest(self.signature))

    def has_choice(self, port: Any) -> bool:
        """Whether MPI may do it after all: by what all ranks know alike."""
        free = self.settings.algorithm == "auto" and self.memory is None and not (self.raw or self.comm._watched)
        large = self.x.nbytes >= base.LARGE and port.size > 1 and self.x.kind in MPI_SUMS
        return free and large and not self.name.endswith("v")

    def choose(self, port: Any, out: Optional[Flat]) -> None:
        """Leave it to MPI where that is faster: tried when the first such array comes, after all ranks agree that it does."""
        key = ("neighbor", self.settings.codec, self.x.kind, self.x.nbytes.bit_length() // 3)
        if key not in port.tables and out is not None:
            sent = port.stats.wire_bytes
            digest, _ = self.comm._agreement(port, self.signature)
            base.meet(port, self.signature, digest, not port.shares, self.name)
            asked = self.settings.override(algorithm="direct")

            def exchange(x: Flat, out: Flat) -> Call:
                call = Call(self.comm, self.name, asked, x, _equal(out, out.n // x.n, x.n) or [], None)
                call.counted = False
                return call

            port.tables[key] = trial.pays(self.comm, port, self.x, out, exchange)
            port.stats.wire_bytes = sent  # what was sent to measure is none of the caller's
        self.raw = not port.tables.get(key, True)

    def count(self) -> Optional[Watch]:
        """Note that it starts; with times, what watches it."""
        if not self.counted:
            return None
        algorithm, codec = "raw" if self.raw else "direct", self.link.codecs[self.comm.rank]
        return self.comm.stats.note(self.name, self.x, algorithm, codec)

    def start(self, seed: int, call: int) -> Run:
        port = self.comm._port()
        randomness = Randomness(seed, call, port.rank, port.size)
        stage = REMEMBERED + self.memory.step if self.memory else 0
        stream = randomness.stream(self.settings.codec, stage, 0)
        args = (self.x, self.rows, self.link, stream, port.pool)
        job: Exchange = Remembering(self.memory, *args) if self.memory else Gather(*args)
        nbytes = 0 if self.name.endswith("v") else self.x.nbytes
        finish = self.memory and self.memory.advance
        return begin(self.comm, port, self.signature, () if self.raw else job, nbytes, self.count(), finish)


class ReplicaPrequest(MemoryPrequest):
    """A persistent neighbour collective with a memory."""

    @property
    def replica(self) -> np.ndarray:
        """This rank's array as its neighbours know it: bit for bit their row of it, or of half floats what their row was
        rounded from, in float32. A complex number is two. Read-only; a copy if on a GPU."""
        if arrays.is_cupy(self._memory.replica):
            return self._memory.replica.copy()
        view = self._memory.replica.view()
        view.flags.writeable = False
        return view


def begin(
    comm: Any, port: Any, signature: str, job: Any, nbytes: int, watch: Optional[Watch], finish: Any = None
) -> Run:
    """A Run of an exchange (or of nothing), after all ranks agree on it; `finish` is called if it succeeds.

    `nbytes`: of every rank's array, 0 if they differ."""
    digest, check = comm._agreement(port, signature)
    label = signature.partition("(")[0]
    if job and nbytes >= base.LARGE and not port.shares:
        base.meet(port, signature, digest, True, label)
    tag = port.tag(digest)
    port = port_for(port, job.like) if job else port

    def end(error: Optional[BaseException]) -> None:
        if error is None and finish is not None:
            finish()

    ended: Finish = end
    if watch is not None:
        port, job, ended = WatchedPort(port, watch), WatchedJob(job, watch), watch.finish(end)
    return Run(port, lanes(port, job, tag) if job else (), prologue=check, finish=ended, label=label, tag=tag)


def blocking(comm: Any, name: str, sendbuf: Any, recvbuf: Any, settings: dict[str, Any]) -> None:
    shape, call = untouched.shape(name, (sendbuf, recvbuf), settings), None
    if shape is None or shape not in comm._untouched:
        call = prepare(comm, name, sendbuf, recvbuf, settings)
        if call is not None and call.raw and call.settled():
            call.count()
        elif call is not None:
            engine.wait(call.start(*comm._number(call.settings.seed, settings.get("seed"))))
        if call is not None and not call.raw:
            return
        if call is not None and shape is not None and not (comm._watched or comm.stats.timed):
            comm._untouched.add(shape)
    untouched.now(comm, name, (sendbuf, recvbuf), call)


def nonblocking(comm: Any, name: str, sendbuf: Any, recvbuf: Any, settings: dict[str, Any]) -> Any:
    call = prepare(comm, name, sendbuf, recvbuf, settings)
    if call is not None and not call.raw:
        return Request(call.start(*comm._number(call.settings.seed, settings.get("seed"))))
    return untouched.later(comm, name, (sendbuf, recvbuf), call)


def persistent(
    comm: Any, name: str, sendbuf: Any, recvbuf: Any, info: Any, memory: Optional[str], settings: dict[str, Any]
) -> Any:
    call = prepare(comm, name, sendbuf, recvbuf, settings, memory, later=True)
    if call is None or call.raw:
        return untouched.again(comm, name, (sendbuf, recvbuf), info, call)
    seed = settings.get("seed")
    if call.memory:
        return ReplicaPrequest(call.start, call.memory, comm._number(call.settings.seed, seed))
    return Prequest(comm._starter(call, seed))


def prepare(
    comm: Any,
    name: str,
    sendbuf: Any,
    recvbuf: Any,
    settings: dict[str, Any],
    memory: Optional[str] = None,
    later: bool = False,
) -> Optional[Call]:
    """A checked Call, or None where the buffers are not for a codec. A rank that finds a fault tells the others.

    `later`: recvbuf must not be written yet."""
    settings = _checked(comm, name, settings)
    if memory is None and base.left_to_mpi(comm, settings.values(), sendbuf):
        return None
    port = port_of(comm)
    try:
        if memory is not None and memory not in MEMORIES:
            raise ValueError(f"memory={memory!r} must be one of {', '.join(map(repr, MEMORIES))}")
        x = buffers.flat(sendbuf, "sendbuf")
        rows = None if x is None else _rows(comm, name, x, recvbuf)
        if x is None or rows is None:
            if memory is not None:
                raise BufferError("a memory needs floating-point data")
            return None
        call = Call(comm, name, comm._settings.override(**settings), x, rows, memory)
        if not later and call.has_choice(port):
            call.choose(port, buffers.flat(recvbuf, "recvbuf", writable=True))
        return call
    except BaseException as error:
        port.fail(error)
        raise


def average(comm: Any, x: Any, out: Any, weights: Any, settings: dict[str, Any]) -> Run:
    """The Run of a neighbor_allreduce."""
    settings = _checked(comm, "neighbor_allreduce", settings)
    comm._graph()  # by all ranks, though some give weights and others ask for them
    port = port_of(comm)
    try:
        mixing = weights is None and comm.mixing.weights[comm.rank]
        flats = buffers.pair(x, out)
        if flats is None:
            raise BufferError(f"an average needs floating-point data, not {getattr(x, 'dtype', type(x).__name__)}")
        source, target = flats
        chosen = comm._settings.override(**settings)
        given = mixing or _given(weights, comm)
        n, kind = source.n, source.kind
        codec = _codec(comm, chosen, n, kind, False)
        ranks = {*_present(comm._sources()), comm.rank}
        here = link(comm, dict.fromkeys(ranks, n), dict.fromkeys(ranks, codec), kind, chosen.segment)
    except BaseException as error:
        port.fail(error)
        raise
    seed, call = comm._number(chosen.seed, settings.get("seed"))
    stream = Randomness(seed, call, port.rank, port.size).stream(codec, 0, 0)
    acc = exchange.wide(target)  # the result itself, or float32 for halves
    job = Average(source, acc, given, here, stream, port.pool)

    def finish() -> None:
        if acc is not target.data:
            target.data[:] = as_kind(acc, kind).data

    signature = f"neighbor_allreduce({n} {KINDS[kind].label}, codec={codec}, seed={seed}, segment={chosen.segment})"
    watch = comm.stats.note("neighbor_allreduce", source, "direct", codec)
    return begin(comm, port, signature, job, source.nbytes, watch, finish)


def _checked(comm: Any, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one call: those that a neighbour collective has."""
    known, codec = base.settings_of(comm, name, changes), changes.get("codec")
    if known.get("algorithm") not in (None, "auto", "raw", "direct"):
        comm._refuse(SettingError(f"{name} has no algorithm named {known['algorithm']!r} (known: auto, raw, direct)"))
    if isinstance(codec, (tuple, list)):
        comm._refuse(SettingError(f"{name}: codec={codec!r}: there is no way back, so one codec"))
    return known


def link(
    comm: Any,
    lengths: dict[int, int],
    codecs: dict[int, Codec],
    kind: str,
    segment: Optional[int],
    checked: bool = False,
) -> Link:
    """To and from every neighbour once, however many rows it has; what a rank sends itself does not travel."""
    sources, destinations = (
        sorted({*_present(ends)} - {comm.rank}) for ends in (comm._sources(), comm._destinations())
    )
    if segment is None and port_of(comm).near:
        segment = NEAR
    return Link(comm.rank, comm.size, sources, destinations, lengths, codecs, kind, segment, checked=checked)


def _present(ends: Sequence[Optional[int]]) -> list[int]:
    return [r for r in ends if r is not None]


def _for_mpi(settings: Settings, x: Flat, varying: bool) -> bool:
    """Whether MPI's own collective is used: a decision that all ranks take alike, so not by lengths that vary."""
    if settings.algorithm == "raw" or isinstance(settings.codec, Raw):
        return True
    return settings.algorithm == "auto" and (
        x.kind not in settings.codec.kinds or (not varying and _small(x.n, x.kind))
    )


def _codec(comm: Any, settings: Settings, n: int, kind: str, always: bool) -> Codec:
    """How an array of n values travels: raw where nothing else was asked for and compression gains nothing."""
    if settings.algorithm == "raw" or comm.size == 1:
        return Raw()
    if settings.algorithm == "auto" and not always and (kind not in settings.codec.kinds or _small(n, kind)):
        return Raw()
    settings.codec.carry(kind)
    return settings.codec


def _small(n: int, kind: str) -> bool:
    return n * KINDS[kind].storage.itemsize < number("MPICOMP_FLOOR", FLOOR)


def _rows(comm: Any, name: str, x: Flat, recvbuf: Any) -> Optional[list[Flat]]:
    """Where each neighbour's array goes, in MPI's order; None if recvbuf is not for a codec."""
    degree = len(comm._sources())
    if name.endswith("v") and isinstance(recvbuf, (list, tuple)):
        rows = _vector(recvbuf, degree)
        if any(row.n != x.n for r, row in zip(comm._sources(), rows or ()) if r == comm.rank):
            raise BufferError(f"recvbuf: rank {comm.rank} is its own neighbour and sends {x.n} values")
    else:
        rows = _equal(buffers.flat(recvbuf, "recvbuf", writable=True), degree, x.n)
    for row in rows or ():
        buffers.same_kind(x, row)
        if arrays.overlap(x, row):
            raise BufferError("sendbuf and recvbuf overlap")
    return rows


def _equal(out: Optional[Flat], degree: int, n: int) -> Optional[list[Flat]]:
    if out is None:
        return None
    if out.n != degree * n:
        raise BufferError(f"recvbuf has {out.n} values; {degree} neighbours send {n} each")
    return [out[i * n : (i + 1) * n] for i in range(degree)]


def _vector(spec: Sequence[Any], degree: int) -> Optional[list[Flat]]:
    """[data, counts], [data, counts, displs, type] and mpi4py's other forms of a buffer for arrays of many lengths."""
    data, *rest = spec
    if not rest:
        raise BufferError("recvbuf is a list of one: expected [data, counts] or [data, counts, displs, type]")
    typed = isinstance(rest[-1], (str, MPI.Datatype))
    out = buffers.flat([data, rest.pop()] if typed else data, "recvbuf", writable=True)
    if out is None:
        return None
    if len(rest) == 1 and isinstance(rest[0], (tuple, list)) and len(rest[0]) == 2 and not np.isscalar(rest[0][0]):
        rest = list(rest[0])
    unit = 2 if "complex" in str(getattr(data, "dtype", "")) else 1
    if not rest or rest[0] is None or np.isscalar(rest[0]):  # as many from each
        rest[:1] = [[out.n // unit // max(degree, 1) if not rest or rest[0] is None else rest[0]] * degree]
    counts = [int(count) for count in rest[0]]
    displs = rest[1] if len(rest) > 1 and rest[1] is not None else np.cumsum([0, *counts[:-1]])
    if len(counts) != degree or len(displs) < degree:
        raise BufferError(f"recvbuf has counts for {len(counts)} neighbours; there are {degree}")
    rows = []
    for count, displ in zip(counts, displs):
        if count < 0 or displ < 0 or unit * (displ + count) > out.n:
            raise BufferError(f"recvbuf: {count} values from {displ} on do not fit its {out.n // unit}")
        rows.append(out[unit * int(displ) : unit * (int(displ) + count)])
    return rows


def _given(weights: Any, comm: Any) -> dict[int, float]:
    """Weights as a mapping from this rank and its neighbours; those not named have none."""
    pairs = weights.items() if hasattr(weights, "items") else enumerate(weights)
    named = {int(r): float(w) for r, w in pairs if w}
    known = {*_present(comm._sources()), comm.rank}
    if set(named) - known:
        raise ValueError(f"weights name {sorted(set(named) - known)}; rank {comm.rank} has {sorted(known)}")
    return {**dict.fromkeys(known, 0.0), **named}
