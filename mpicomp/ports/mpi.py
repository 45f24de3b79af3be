"""Messages by mpi4py, on a private duplicate of the user's communicator, so that they never meet the user's own.

A failure on one rank reaches the others as a notice, which they look for while they wait. A port that saw a failure is
dropped: the next collective makes a fresh duplicate, on every rank, so no stale message can be taken for a new one.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import Any, Optional

import numpy as np
from mpi4py import MPI

from ..errors import DisagreementError, RemoteError, TimeoutError
from ..job import Pool

_NOTICE = 0  # the tag of failure notices; all other tags are larger
_LANE_BITS = 10  # cuts.MOST lanes of a call
_SALT_BITS = 12
_TEXT = 1024  # bytes of a notice
_LOOK_EVERY = 0.002  # seconds between two looks for trouble while idle


class _Arrival(MPI.Request):
    """A message that is awaited, and from whom."""

    source: int


class MPIPort:
    """One rank's end of a private communicator."""

    def __init__(self, comm: MPI.Comm):
        self.comm = MPI.Intracomm(comm).Dup()
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank, self.size = self.comm.rank, self.comm.size
        self.lock = threading.RLock()  # whoever advances runs holds it
        self.active: list[Any] = []
        self.ruins: list[Any] = []
        self.agreed: set[int] = set()
        self.pool = Pool()
        self.plans: dict[Any, Any] = {}  # what was thought out for a shape
        self.tables: dict[Any, Any] = {}  # measured times, by codec
        self.hosts: Optional[int] = None
        self.calls = 0
        self.broken = False
        self._call_bits = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 32767).bit_length() - _LANE_BITS - _SALT_BITS
        self._timeout = float(os.environ.get("MPICOMP_TIMEOUT", "inf"))
        self._idle_since: Optional[float] = None
        self._next_look = 0.0
        self._notices: list[Any] = []

    # What schedules call

    def isend(self, buffer: Any, dest: int, tag: int) -> MPI.Request:
        return self.comm.Isend([buffer, MPI.BYTE], dest, tag)

    def irecv(self, buffer: Any, source: int, tag: int) -> MPI.Request:
        message = _Arrival(self.comm.Irecv([buffer, MPI.BYTE], source, tag))
        message.source = source
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
        """Nothing moved: give the core to others and, now and then, look for trouble."""
        os.sched_yield()
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since, self._next_look = now, now + _LOOK_EVERY
        elif now > self._next_look:
            self._next_look = now + _LOOK_EVERY
            self._look(run, now - self._idle_since)

    # What collectives call

    def tag(self, salt: int) -> int:
        """The first tag of a new call, one for each of its lanes behind it. Calls with other arguments get other tags."""
        self.calls += 1
        call = 1 + self.calls % ((1 << self._call_bits) - 1)
        return (call << _SALT_BITS | salt % (1 << _SALT_BITS)) << _LANE_BITS

    def fail(self, error: BaseException) -> None:
        """Tell the others that this rank fails in the present call, and use this port no more."""
        if self.broken or getattr(error, "settled", False):
            return
        self.broken = True
        _GRAVES.append(self)
        for run in list(self.active):
            run.abandon(error)
        if not isinstance(error, RemoteError):
            text = f"{type(error).__name__}: {error}".encode()[: _TEXT - 1]
            notice = np.frombuffer(text.ljust(_TEXT, b"\0"), np.uint8)
            self._notices = [
                self.comm.Isend([notice, MPI.BYTE], r, _NOTICE) for r in range(self.size) if r != self.rank
            ]

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
            self.comm.Free()

    def _look(self, run: Any, waited: float) -> None:
        status = MPI.Status()
        if self.comm.Iprobe(MPI.ANY_SOURCE, _NOTICE, status):
            notice = np.zeros(_TEXT, np.uint8)
            self.comm.Recv([notice, MPI.BYTE], status.source, _NOTICE)
            raise RemoteError(
                f"rank {status.source} failed: {notice.tobytes().rstrip(bytes(1)).decode(errors='replace')}"
            )
        if self.comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status) and self._contradicts(run, status.tag):
            raise DisagreementError(
                f"rank {status.source} takes part in this collective with other arguments than rank {self.rank}"
            )
        if waited > self._timeout:
            raise TimeoutError(
                f"{run.label}: no answer for {waited:.1f} s (MPICOMP_TIMEOUT={self._timeout:g}) from {_silent(run)}"
            )

    def _contradicts(self, run: Any, tag: int) -> bool:
        """Whether a message nobody asked for belongs to the same call of a peer, made with other arguments."""
        shift = _SALT_BITS + _LANE_BITS
        return run.tag is not None and tag >> shift == run.tag >> shift and tag >> _LANE_BITS != run.tag >> _LANE_BITS


def _silent(run: Any) -> str:
    ranks = sorted({h.source for h in run.pending() if isinstance(h, _Arrival) and h != MPI.REQUEST_NULL})
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


_KEYVAL: list[int] = []
_GRAVES: list[Any] = []  # failed ports, with their ruins: MPI may still write into the buffers of messages under way


def _keyval() -> int:
    if not _KEYVAL:
        _KEYVAL.append(MPI.Comm.Create_keyval(delete_fn=lambda comm, keyval, port: port.free()))
    return _KEYVAL[0]
