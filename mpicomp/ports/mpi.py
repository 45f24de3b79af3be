"""Messages by mpi4py, on a private duplicate of the user's communicator, so that they never meet the user's own.

A failure on one rank reaches the others as a notice, which they look for while they wait. A rank that waits for long
tells the silent ones which call it is in, so that they can find out that they are in another. A port that saw a failure is
dropped: the next collective makes a fresh duplicate, on every rank, so no stale message can be taken for a new one.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import Any, Iterator, Optional

import numpy as np
from mpi4py import MPI

from ..errors import DisagreementError, RemoteError, TimeoutError, WireError
from ..job import Pool
from ..stats import Stats
from .base import Port
from .shared import arena

_NOTICE, _QUESTION = 0, 1  # the tags of failure notices and of questions; all other tags are larger
_LANE_BITS = 10  # cuts.MOST lanes of a call
_SALT_BITS = 12  # of what the ranks agreed upon; fewer where MPI has few tags
_TEXT = 1024  # bytes of a notice: the number of the first call that failed, and why
_LEND = 64 << 10  # bytes from which a wire stays where it is, for ranks of the same node
_ARENA = 256 << 20  # bytes of address space for such wires; memory is taken as it is used
_SPIN = 100e-6  # seconds of waiting before the core is offered to others
_LOOK_EVERY = 0.002  # seconds between two looks for trouble while idle
_ASK_AFTER = 0.25  # seconds of silence after which peers are asked what they do; then after twice as long, and so on


class _Arrival(MPI.Request):
    """A message that is awaited, and from whom; `lent` if it says only where its bytes are."""

    source: int
    tag: int
    lent = False


class MPIPort(Port):
    """One rank's end of a private communicator."""

    def __init__(self, comm: MPI.Comm):
        self.comm = MPI.Intracomm(comm).Dup()
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank, self.size = self.comm.rank, self.comm.size
        self.lock = threading.RLock()  # whoever advances runs holds it
        self.nodes = _nodes(self.comm)
        self._name = np.array(
            time.time_ns()
        )  # of this port: MPI gives the number of a freed communicator to another one
        self.comm.Bcast(self._name, 0)
        self.active: list[Any] = []
        self.ruins: list[Any] = []
        self.agreed: set[int] = set()
        self.pool = Pool()
        self.stats = stats_of(comm)
        self.plans: dict[Any, Any] = {}  # what was thought out for a shape
        self.tables: dict[Any, Any] = {}  # measured times, by codec
        self.hosts: Optional[int] = None
        self.calls = 0
        self.broken = False
        self.shares = False
        self._returns: Any = MPI.COMM_NULL  # what was lent is given back by it, with the tags it came by
        self._blank = np.frombuffer(os.urandom(16), np.uint8)
        self._call_bits, self._salt_bits = tag_bits(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 32767)
        self._timeout = float(os.environ.get("MPICOMP_TIMEOUT", "inf"))
        self._idle_since: Optional[float] = None
        self._next_look = 0.0
        self._ask_after = _ASK_AFTER
        self._told: list[Any] = []  # notices and questions under way
        self._notice: Optional[tuple[int, str]] = None  # the first call that failed elsewhere, and how

    # What schedules call

    def isend(self, buffer: Any, dest: int, tag: int) -> MPI.Request:
        self.stats.wire_bytes += buffer.nbytes
        return self.comm.Isend([buffer, MPI.BYTE], dest, tag)

    def irecv(self, buffer: Any, source: int, tag: int) -> MPI.Request:
        return self._arrival(self.comm, buffer, source, tag)

    def lend(self, buffer: Any, dest: int, tag: int) -> MPI.Request:
        at = self.pool.arena.offset(buffer) if self._lends(buffer, dest) else None
        if at is None:
            return self.isend(buffer, dest, tag)
        self.stats.wire_bytes += buffer.nbytes
        self._tell(np.array([at], np.int64).view(np.uint8), [dest], tag)
        return self._arrival(self._returns, np.empty(0, np.uint8), dest, tag)

    def borrow(self, room: Any, source: int, tag: int) -> MPI.Request:
        if self._lends(room, source):
            room[8:24] = self._blank  # it stays if a place comes, and not if the bytes do
        return self.irecv(room, source, tag)

    def borrowed(self, message: Any, room: Any) -> Any:
        if not self._lends(room, message.source) or (room[8:24] != self._blank).any():
            return room
        message.lent = True
        memory, at = self.pool.arena.peers[message.source], int(room[:8].view(np.int64)[0])
        if not 0 <= at <= memory.size - room.nbytes:
            raise WireError(f"rank {message.source} lends bytes that it does not have")
        return memory[at : at + room.nbytes]

    def give_back(self, messages: Any) -> None:
        for message in messages:
            if message.lent:
                self._told.append(self._returns.Isend([np.empty(0, np.uint8), MPI.BYTE], message.source, message.tag))

    def _lends(self, buffer: Any, peer: int) -> bool:
        if self.pool.arena is None or buffer.nbytes < _LEND or not isinstance(buffer, np.ndarray):
            return False
        return peer in self.pool.arena.peers

    def _arrival(self, comm: MPI.Intracomm, buffer: Any, source: int, tag: int) -> _Arrival:
        message = _Arrival(comm.Irecv([buffer, MPI.BYTE], source, tag))
        message.source, message.tag = source, tag
        return message

    # What the engine calls

    def done(self, handles: list[MPI.Request]) -> bool:
        """Whether all of these messages are through. Raises what MPI raises."""
        try:
            return MPI.Request.Testall(handles)
        except MPI.Exception as error:
            if error.Get_error_class() in (MPI.ERR_TRUNCATE, MPI.ERR_IN_STATUS):
                raise DisagreementError(
                    "a peer sent a message of another length: the ranks called this collective with different arguments"
                ) from None
            raise

    def busy(self) -> None:
        """Something moved."""
        self._idle_since = None

    def idle(self, run: Any) -> None:
        """Nothing moved: after a while give the core to others and, now and then, look for trouble."""
        now = time.monotonic()
        if self._idle_since is not None and now - self._idle_since > _SPIN:
            os.sched_yield()
        if self._idle_since is None:
            self._idle_since, self._next_look, self._ask_after = now, now + _LOOK_EVERY, _ASK_AFTER
        elif now > self._next_look:
            self._next_look = now + _LOOK_EVERY
            self._look(run, now - self._idle_since)

    # What collectives call

    def tag(self, salt: int) -> int:
        """The first tag of a new call, one for each of its lanes behind it. Calls with other arguments get other tags."""
        self.calls += 1
        call = 1 + self.calls % ((1 << self._call_bits) - 1)
        return (call << self._salt_bits | salt % (1 << self._salt_bits)) << _LANE_BITS

    def fail(self, error: BaseException) -> None:
        """Tell the others that this rank fails in the present call, and use this port no more."""
        if self.broken or getattr(error, "settled", False):
            return
        self.broken = True
        _GRAVES.append(self)
        for run in list(self.active):
            run.abandon(error)
        if not isinstance(error, RemoteError):
            first = min((run.call for run in self.ruins), default=self.calls + 1)
            text = first.to_bytes(8, "little") + f"{type(error).__name__}: {error}".encode()
            self._tell(np.frombuffer(text[:_TEXT].ljust(_TEXT, b"\0"), np.uint8), self._others(), _NOTICE)

    def share_memory(self) -> None:
        """Let large wires stay where they are between ranks of one node. Collective; done once."""
        self.shares = True
        self.pool.arena = arena(self.comm, self.nodes, _ARENA) if len(set(self.nodes)) < self.size else None
        if self.pool.arena is not None:
            self._returns = self.comm.Dup()

    @property
    def near(self) -> bool:
        """Whether all ranks see each other's memory."""
        return self.pool.arena is not None and len(set(self.nodes)) == 1

    # Small exchanges, blocking and collective; buffers, never pickle

    def slowest(self, seconds: float) -> float:
        """The largest of all ranks' numbers."""
        most = np.array([seconds], np.float64)
        self.comm.Allreduce(MPI.IN_PLACE, most, MPI.MAX)
        return float(most[0])

    def share(self, data: bytes) -> bytes:
        """Rank 0's bytes, on every rank."""
        length = np.array([len(data)], np.int64)
        self.comm.Bcast(length, 0)
        buffer = np.frombuffer(data, np.uint8).copy() if self.rank == 0 else np.empty(length[0], np.uint8)
        self.comm.Bcast(buffer, 0)
        return buffer.tobytes()

    def count_hosts(self) -> int:
        """How many different hosts the ranks are on."""
        if self.hosts is None:
            name = np.frombuffer(hashlib.blake2b(MPI.Get_processor_name().encode(), digest_size=16).digest(), np.uint8)
            names = np.empty((self.size, name.size), np.uint8)
            self.comm.Allgather(name, names)
            self.hosts = len({row.tobytes() for row in names})
        return self.hosts

    def free(self) -> None:
        """Release the private communicator. A broken one may have messages under way and is left to MPI_Finalize."""
        if not self.broken and not MPI.Is_finalized() and self.comm != MPI.COMM_NULL:
            if self._returns != MPI.COMM_NULL:
                self._returns.Free()
            self.comm.Free()

    def _look(self, run: Any, waited: float) -> None:
        status = MPI.Status()
        while self.comm.Iprobe(MPI.ANY_SOURCE, _NOTICE, status):
            self._note(status.source)
        if self._notice is not None and run.call >= self._notice[0]:  # an earlier call may still end well
            raise RemoteError(self._notice[1])
        for source in self._contradictions(run):
            raise DisagreementError(
                f"rank {source} takes part in this collective with other arguments than rank {self.rank}"
            )
        if waited > self._timeout:
            raise TimeoutError(
                f"{run.label}: no answer for {waited:.1f} s (MPICOMP_TIMEOUT={self._timeout:g}) from {_silent(run)}"
            )
        if waited > self._ask_after and run.tag is not None:
            self._ask_after *= 2
            self._tell(np.array([self._name, run.call, run.tag]).view(np.uint8), _sources(run), _QUESTION)

    def _note(self, source: int) -> None:
        """Read a notice; the one of the earliest call counts."""
        data = np.zeros(_TEXT, np.uint8)
        self.comm.Recv([data, MPI.BYTE], source, _NOTICE)
        first, text = int(data[:8].view("<i8")[0]), data[8:].tobytes().rstrip(bytes(1)).decode(errors="replace")
        if self._notice is None or first < self._notice[0]:
            self._notice = first, f"rank {source} failed: {text}"

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _tell(self, data: np.ndarray, ranks: list[int], tag: int) -> None:
        self._told = [message for message in self._told if not message.Test()]
        self._told += [self.comm.Isend([data, MPI.BYTE], rank, tag) for rank in ranks]

    def _contradictions(self, run: Any) -> Iterator[int]:
        """The peers that take part in this call with other arguments, by their questions or by their messages."""
        status, question = MPI.Status(), np.zeros(3, np.int64)
        while self.comm.Iprobe(MPI.ANY_SOURCE, _QUESTION, status):
            self.comm.Recv([question.view(np.uint8), MPI.BYTE], status.source, _QUESTION)
            name, call, tag = question.tolist()
            if name == self._name and call == run.call and self._differs(run, tag):
                yield status.source
        for source in _sources(
            run
        ):  # the first that such a peer sent is of the awaited call: no number has come round yet
            if self.comm.Iprobe(source, MPI.ANY_TAG, status) and self._differs(run, status.tag):
                yield source

    def _differs(self, run: Any, tag: int) -> bool:
        """Whether this tag is of the run's call with other arguments."""
        shift = self._salt_bits + _LANE_BITS
        return run.tag is not None and tag >> shift == run.tag >> shift and tag >> _LANE_BITS != run.tag >> _LANE_BITS


def tag_bits(largest: int) -> tuple[int, int]:
    """How many bits of a tag number the calls, and how many tell their arguments apart."""
    bits = (largest + 1).bit_length() - 1 - _LANE_BITS
    salt = min(_SALT_BITS, bits // 2)
    return bits - salt, salt


def _sources(run: Any) -> list[int]:
    """The ranks that a run waits for; none while the ranks agree, which all of them do together."""
    return sorted({h.source for h in run.pending() if isinstance(h, _Arrival) and h != MPI.REQUEST_NULL})


def _silent(run: Any) -> str:
    ranks = _sources(run)
    return f"rank {', '.join(map(str, ranks))}" if ranks else "some of the other ranks"


def port_of(comm: MPI.Comm) -> MPIPort:
    """The port of a communicator: made on first use (collective), kept with it, freed with it."""
    keyval = _keyval()
    port: Any = comm.Get_attr(keyval)
    if port is None or port.broken:
        port, old = MPIPort(comm), port
        if old is not None:
            port.plans, port.tables, port.hosts = old.plans, old.tables, old.hosts
        comm.Set_attr(keyval, port)
    return port


def existing_port(comm: MPI.Comm) -> Optional[MPIPort]:
    """The port of a communicator, if it has one. Local."""
    port: Any = comm.Get_attr(_KEYVAL[0]) if _KEYVAL else None
    return port


def stats_of(comm: MPI.Comm) -> Stats:
    """What is counted for a communicator: kept with it, whatever becomes of its ports. Local."""
    if not _STATS_KEYVAL:
        _STATS_KEYVAL.append(MPI.Comm.Create_keyval())
    stats: Any = comm.Get_attr(_STATS_KEYVAL[0])
    if stats is None:
        stats = Stats(MPI.COMM_WORLD.rank)
        comm.Set_attr(_STATS_KEYVAL[0], stats)
    return stats


def _nodes(comm: MPI.Intracomm) -> list[int]:
    """A number for each rank's node: ranks that can share memory have the same. MPICOMP_NODES_OF=4 puts 4 ranks on each."""
    given = os.environ.get("MPICOMP_NODES_OF")
    if given is not None:
        return [rank // max(int(given), 1) for rank in range(comm.size)]
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = np.array(comm.rank)
    node.Bcast(first, 0)
    node.Free()
    firsts = np.empty(comm.size, first.dtype)
    comm.Allgather(first, firsts)
    return firsts.tolist()


_KEYVAL: list[int] = []
_STATS_KEYVAL: list[int] = []
_GRAVES: list[Any] = []  # failed ports, with their ruins: MPI may still write into the buffers of messages under way


def _keyval() -> int:
    if not _KEYVAL:
        _KEYVAL.append(MPI.Comm.Create_keyval(delete_fn=lambda comm, keyval, port: port.free()))
    return _KEYVAL[0]
