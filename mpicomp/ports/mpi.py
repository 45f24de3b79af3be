"""Messages by mpi4py, on a private duplicate of the user's communicator, so that they never meet the user's own.

What a rank does about trouble while it waits is in alarm.py. A port that saw a failure is dropped: the next collective
makes a fresh duplicate, on every rank, so no stale message can be taken for a new one.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import Any, Callable, Optional

import numpy as np
from mpi4py import MPI

from ..checks import number
from ..errors import DisagreementError, RemoteError, TimeoutError, WireError
from ..job import Pool
from ..stats import Stats
from .alarm import LOOK_EVERY, Alarm, Arrival, timeout
from .base import Port
from .shared import arena

_LANE_BITS = 10  # cuts.MOST lanes of a call
_SALT_BITS = 12  # of what the ranks agreed upon; fewer where MPI has few tags
_LEND = 64 << 10  # bytes from which a wire stays where it is, for ranks of the same node
_ARENA = 256 << 20  # bytes of address space for such wires; memory is taken as it is used
# Seconds in which a rank that waits offers its core to others, before it leaves it to them: where all ranks of a core
# offer it, it goes from one that waits to the next.
_LONG = 1e-3


class MPIPort(Port):
    """One rank's end of a private communicator."""

    def __init__(self, comm: MPI.Comm):
        self.comm = _duplicate(comm)
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank, self.size = self.comm.rank, self.comm.size
        self.lock = threading.RLock()  # whoever advances runs holds it
        self.nodes = _nodes(self.comm)
        self.active: list[Any] = []
        self.ruins: list[Any] = []
        self.agreed: set[int] = set()  # numbers of signatures
        self.asked: dict[int, Any] = {}  # those that the ranks are asked about
        self.pool = Pool()
        self.stats = stats_of(comm)
        self.plans: dict[Any, Any] = {}  # what was thought out for a shape
        self.tables: dict[Any, Any] = {}  # measured times, by codec
        self.devices: dict[int, Any] = {}  # what carries messages from and to the memory of each GPU
        self.hosts: Optional[int] = None
        self.calls = 0
        self.failure: Optional[BaseException] = None  # what ended this port
        self.untold = False  # the caller does not know of it
        self.shares = False
        self._returns: Any = MPI.COMM_NULL  # what was lent is given back by it, with the tags it came by
        self._blank = np.frombuffer(os.urandom(16), np.uint8)
        self._call_bits, self._salt_bits = tag_bits(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 32767)
        self.window = (1 << self._call_bits) - 1  # calls that their tags tell apart
        self._alarm = Alarm(self.comm, self._differs)
        self._idle_since: Optional[float] = None
        self._next_look = 0.0

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
        self._alarm.tell(np.array([at], np.int64).view(np.uint8), [dest], tag)
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
                message.lent = False  # once
                nothing = np.empty(0, np.uint8)
                self._alarm.told.append(self._returns.Isend([nothing, MPI.BYTE], message.source, message.tag))

    def _lends(self, buffer: Any, peer: int) -> bool:
        if self.pool.arena is None or buffer.nbytes < _LEND or not isinstance(buffer, np.ndarray):
            return False
        return peer in self.pool.arena.peers

    def _arrival(self, comm: MPI.Intracomm, buffer: Any, source: int, tag: int) -> Arrival:
        message = Arrival(comm.Irecv([buffer, MPI.BYTE], source, tag))
        message.source, message.tag = source, tag
        return message

    # What the engine calls

    def done(self, handles: list[MPI.Request], statuses: Optional[list[MPI.Status]] = None) -> bool:
        """Whether all of these messages are through. Raises what MPI raises."""
        try:
            return MPI.Request.Testall(handles, statuses)
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
        """Nothing moved: give the core to others and, now and then, look for trouble."""
        now = time.monotonic()
        waited = 0.0 if self._idle_since is None else now - self._idle_since
        if waited > _LONG:
            time.sleep(min(waited / 100, 1e-3))  # 50e-6 more by the system; always so little: a quarter of a core
        else:
            os.sched_yield()
        if self._idle_since is None:
            self._idle_since, self._next_look = now, now + LOOK_EVERY
            self._alarm.begin()
        elif now > self._next_look:
            self._next_look = now + LOOK_EVERY
            self._alarm.look(run, now - self._idle_since)

    # What collectives call

    def tag(self, salt: int) -> int:
        """The first tag of a new call, one for each of its lanes behind it. Calls with other arguments get other tags."""
        self.calls += 1
        call = 1 + self.calls % self.window
        return (call << self._salt_bits | salt % (1 << self._salt_bits)) << _LANE_BITS

    def heed(self, call: int) -> None:
        """Raise RemoteError if another rank is known to have failed in this call or before."""
        self._alarm.heed(call)

    def fail(self, error: BaseException, told: bool = True) -> None:
        """Tell the others that this rank fails in the present call, and use this port no more.

        Unless the caller is told of it now, the next call will: a call on a fresh port would meet the wrong one elsewhere.
        """
        with self.lock:  # a thread may be advancing these runs
            if told:
                self.untold = False
            if self.failure is not None or getattr(error, "settled", False):
                return
            self.failure, self.untold = error, not told
            _GRAVES.append(self)
            for run in list(self.active):
                run.abandon(error)
            if not isinstance(error, RemoteError):
                first = min((run.call for run in self.ruins), default=self.calls + 1)
                self._alarm.tell_failure(first, error)

    def check(self) -> None:
        """Raise what ended this port, if it has ended: a run that began now would wait for ever."""
        if self.failure is not None:
            self.untold = False
            raise self.failure

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
        """Release the private communicator, when all that is under way on it is through. Collective.

        A broken one may have messages under way and is left to MPI_Finalize.
        """
        if self.failure is not None or MPI.Is_finalized() or self.comm == MPI.COMM_NULL:
            return
        with self.lock:
            try:
                while self.active:
                    if not any([run.advance() for run in list(self.active)]):
                        self.idle(self.active[0])
            except Exception as error:
                self.fail(error)  # whoever waits for the run gets it
            if self.failure is None and self._alarm.settle():
                if self._returns != MPI.COMM_NULL:
                    self._returns.Free()
                self.comm.Free()
            elif self.failure is None:
                _GRAVES.append(self)

    def _differs(self, run: Any, tag: int) -> bool:
        """Whether this tag is of the run's call with other arguments."""
        shift = self._salt_bits + _LANE_BITS
        return run.tag is not None and tag >> shift == run.tag >> shift and tag >> _LANE_BITS != run.tag >> _LANE_BITS


def tag_bits(largest: int) -> tuple[int, int]:
    """How many bits of a tag number the calls, and how many tell their arguments apart."""
    bits = (largest + 1).bit_length() - 1 - _LANE_BITS
    salt = min(_SALT_BITS, bits // 2)
    return bits - salt, salt


def _duplicate(comm: MPI.Comm) -> MPI.Intracomm:
    """Collective. With MPICOMP_TIMEOUT it takes no longer than that; the next call then goes on waiting for the same."""
    limit, begin = timeout(), time.monotonic()
    if limit == float("inf"):
        return MPI.Intracomm(comm).Dup()
    keyval = _keyval("duplicate")
    under_way: Any = comm.Get_attr(keyval) or MPI.Intracomm(comm).Idup()
    comm.Set_attr(keyval, under_way)
    while not under_way[1].Test():
        if time.monotonic() - begin > limit:
            raise TimeoutError(
                f"the first collective of a communicator waits for all ranks: no answer for {limit:.1f} s "
                f"(MPICOMP_TIMEOUT={limit:g}) from some of the other {comm.size - 1}"
            )
        os.sched_yield()
    comm.Delete_attr(keyval)
    return under_way[0]


def port_of(comm: MPI.Comm) -> MPIPort:
    """The port of a communicator: made on first use (collective), kept with it, freed with it."""
    keyval = _keyval("port", lambda comm, keyval, port: port.free())
    port: Any = comm.Get_attr(keyval)
    if port is not None and port.untold:
        port.check()
    if port is None or port.failure is not None:
        port, old = MPIPort(comm), port
        if old is not None:
            port.plans, port.tables, port.hosts = old.plans, old.tables, old.hosts
        comm.Set_attr(keyval, port)
    return port


def existing_port(comm: MPI.Comm) -> Optional[MPIPort]:
    """The port of a communicator, if it has one. Local."""
    port: Any = comm.Get_attr(_KEYVALS["port"]) if "port" in _KEYVALS else None
    return port


def stats_of(comm: MPI.Comm) -> Stats:
    """What is counted for a communicator: kept with it, whatever becomes of its ports. Local."""
    return kept(comm, "stats", lambda: Stats(MPI.COMM_WORLD.rank))


def kept(comm: MPI.Comm, name: str, make: Callable[[], Any]) -> Any:
    """What is kept with a communicator under this name, made on first use. Local."""
    keyval = _keyval(name)
    found: Any = comm.Get_attr(keyval)
    if found is None:
        found = make()
        comm.Set_attr(keyval, found)
    return found


def _nodes(comm: MPI.Intracomm) -> list[int]:
    """A number for each rank's node: ranks that can share memory have the same. MPICOMP_NODES_OF=4 puts 4 ranks on each."""
    if os.environ.get("MPICOMP_NODES_OF"):
        each = max(number("MPICOMP_NODES_OF", 1), 1)
        return [rank // each for rank in range(comm.size)]
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = np.array(comm.rank)
    node.Bcast(first, 0)
    node.Free()
    firsts = np.empty(comm.size, first.dtype)
    comm.Allgather(first, firsts)
    return firsts.tolist()


_KEYVALS: dict[str, int] = {}
_GRAVES: list[Any] = []  # failed ports, with their ruins: MPI may still write into the buffers of messages under way
_LOCK = threading.Lock()


def _keyval(name: str, delete: Optional[Callable[[Any, int, Any], None]] = None) -> int:
    """The key of something that is kept with communicators."""
    if name not in _KEYVALS:
        with _LOCK:
            _KEYVALS.setdefault(name, MPI.Comm.Create_keyval(delete_fn=delete))
    return _KEYVALS[name]
