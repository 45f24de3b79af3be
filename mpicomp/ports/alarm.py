"""What a rank does about trouble while it waits: it hears of failures elsewhere, asks, and gives up.

A failure on one rank reaches the others as a notice. A rank that waits for long tells the silent ones which call it is in,
so that they can find out that they are in another. With a timeout it tells all ranks, so that those who wait for the same
peer know of each other, and the one that nobody heard of can be named.
"""

from __future__ import annotations

import os
import time
from typing import Any, Iterator, Optional

import numpy as np
from mpi4py import MPI

from ..errors import DisagreementError, RemoteError, TimeoutError

NOTICE, QUESTION, TEXT = 0, 1, 2  # the tags of failure notices, questions and signatures; all other tags are larger
LOOK_EVERY = 0.002  # seconds between two looks for trouble while idle
_TEXT = 1024  # bytes of a notice: the number of the first call that failed, and why
_ASK_AFTER = 0.25  # seconds of silence after which peers are asked what they do; then after twice as long, and so on


class Arrival(MPI.Request):
    """A message that is awaited, and from whom; `lent` if it says only where its bytes are."""

    source: int
    tag: int
    lent = False


class Alarm:
    """One rank's notices and questions on a private communicator. `differs(run, tag)`: is it of that call, but another?"""

    def __init__(self, comm: MPI.Intracomm, differs: Any):
        self.comm = comm
        self.timeout = timeout()
        self._differs = differs
        self._first_ask = min(_ASK_AFTER, self.timeout / 4)
        self._ask_after = self._first_ask
        self.told: list[Any] = []  # short messages under way that nobody waits for
        self._notice: Optional[tuple[int, str]] = None  # the first call that failed elsewhere, and how
        self._asked = np.zeros(comm.size, np.int64)  # questions to each rank
        self._heard = np.zeros(comm.size, np.int64)  # and from each
        self._waiting: dict[int, tuple[int, int]] = {}  # call and tag of the latest question from each rank
        self._suspect: Optional[int] = None

    def begin(self) -> None:
        """A time of waiting begins."""
        self._ask_after, self._suspect = self._first_ask, None

    def look(self, run: Any, waited: float) -> None:
        """Raise what there is to be raised about a run that has waited so long; ask its peers now and then."""
        self.heed(run.call)
        for source in self._contradictions(run):
            raise DisagreementError(
                f"rank {source} takes part in {run.title} with other arguments than rank {self.comm.rank}"
            )
        if waited > self.timeout:
            raise TimeoutError(
                f"{run.title}: no answer for {waited:.1f} s (MPICOMP_TIMEOUT={self.timeout:g}) from {self._silent(run)}"
            )
        if waited > self._ask_after and run.tag is not None:
            self._ask_after *= 2
            ranks = _sources(run) if self.timeout == float("inf") else self._others()
            self._asked[ranks] += 1
            self.tell(np.array([run.call, run.tag]).view(np.uint8), ranks, QUESTION)

    def heed(self, call: int) -> None:
        """Raise RemoteError if a rank has failed in this call or before: earlier calls may still end well."""
        self._hear()
        if self._notice is not None and call >= self._notice[0]:
            raise RemoteError(self._notice[1])

    def tell_failure(self, first: int, error: BaseException) -> None:
        """Let the others know that call number `first` and what follows will fail."""
        text = first.to_bytes(8, "little") + f"{type(error).__name__}: {error}".encode()
        self.tell(np.frombuffer(text[:_TEXT].ljust(_TEXT, b"\0"), np.uint8), self._others(), NOTICE)

    def settle(self) -> bool:
        """Receive every question that is under way, on all ranks: MPI may give the communicator's number to another one,
        which would find them. Collective. False if a rank failed or does not come."""
        due, begin = np.zeros_like(self._asked), time.monotonic()
        counted = self.comm.Ialltoall(self._asked, due)
        while not counted.Test() or (due > self._heard).any():
            self._hear()
            if self._notice is not None or time.monotonic() - begin > self.timeout:
                self.told.append(counted)
                return False
            os.sched_yield()
        return True

    def _hear(self) -> None:
        """Receive notices, of which that of the earliest call counts, and questions."""
        status, question = MPI.Status(), np.zeros(2, np.int64)
        while self.comm.Iprobe(MPI.ANY_SOURCE, NOTICE, status):
            data = np.zeros(_TEXT, np.uint8)
            self.comm.Recv([data, MPI.BYTE], status.source, NOTICE)
            first, text = int(data[:8].view("<i8")[0]), data[8:].tobytes().rstrip(bytes(1)).decode(errors="replace")
            if self._notice is None or first < self._notice[0]:
                self._notice = first, f"rank {status.source} failed: {text}"
        while self.comm.Iprobe(MPI.ANY_SOURCE, QUESTION, status):
            self.comm.Recv([question.view(np.uint8), MPI.BYTE], status.source, QUESTION)
            self._heard[status.source] += 1
            self._waiting[status.source] = int(question[0]), int(question[1])

    def _contradictions(self, run: Any) -> Iterator[int]:
        """The peers that take part in this call with other arguments, by their questions or by their messages.

        The first message of a peer that is not received yet is of the awaited call or a later one. It is believed when it is
        still there at the next look: the awaited one may have come in between, and numbers of calls come round.
        """
        yield from (r for r, (call, tag) in self._waiting.items() if call == run.call and self._differs(run, tag))
        status = MPI.Status()
        for source in _sources(run):
            if self.comm.Iprobe(source, MPI.ANY_TAG, status) and self._differs(run, status.tag):
                if self._suspect == source:
                    yield source
                self._suspect = source
                return

    def _silent(self, run: Any) -> str:
        """The ranks that do not wait themselves, as far as is known."""
        ranks = [rank for rank in self._others() if self._waiting.get(rank, (-1, 0))[0] < run.call] or _sources(run)
        return f"rank {', '.join(map(str, ranks))}" if ranks else "some of the other ranks"

    def _others(self) -> list[int]:
        return [rank for rank in range(self.comm.size) if rank != self.comm.rank]

    def tell(self, data: np.ndarray, ranks: list[int], tag: int) -> None:
        """Send something short, and do not wait for it."""
        self.told = [message for message in self.told if not message.Test()]
        self.told += [self.comm.Isend([data, MPI.BYTE], rank, tag) for rank in ranks]


def timeout() -> float:
    """MPICOMP_TIMEOUT in seconds; infinite where it is not set."""
    given = os.environ.get("MPICOMP_TIMEOUT") or "0"
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(f"MPICOMP_TIMEOUT={given!r} must be a number of seconds")
    return seconds or float("inf")


def _sources(run: Any) -> list[int]:
    """The ranks that a run waits for; none while the ranks agree or MPI is at work, which all of them do together."""
    handles = (getattr(handle, "request", handle) for handle in run.pending())  # messages of a GPU have one of MPI's
    return sorted({h.source for h in handles if isinstance(h, Arrival) and h != MPI.REQUEST_NULL})
