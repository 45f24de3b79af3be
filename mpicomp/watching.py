"""Where the time of one call goes: a port and a job that stand between the engine and the real ones, and take times."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from .job import WORK, amount
from .settings import wanted
from .timeline import timeline_of


@dataclass
class Row:
    """The calls of one collective by one algorithm with one codec. Seconds are 0 where no times are taken.

    codec: in encoding, summing and decoding. transfer: in handing messages to MPI and taking them from it. waiting: with
    nothing to do. They happen within `seconds`, from start to end, in which a non-blocking call may also rest.
    """

    calls: int = 0
    raw_bytes: int = 0
    wire_bytes: int = 0
    seconds: float = 0.0
    codec: float = 0.0
    transfer: float = 0.0
    waiting: float = 0.0

    def add(self, other: Row) -> None:
        for name in vars(other):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {1e3 * getattr(self, name):.2f}" for name in ("codec", "transfer", "waiting"))
        return f"{self.wire_bytes:,} bytes sent, {1e3 * self.seconds:.2f} ms ({parts})"


class Watch:
    """Times of one call: `port` and `job` put themselves between the engine and the real ones."""

    def __init__(self, rank: int, row: Row, what: str):
        self.rank, self.row, self.what = rank, row, what
        self.spent = Row()
        self.begin = time.perf_counter()
        self.idle_since: Optional[float] = None
        self.timeline = timeline_of(rank)

    def finish(self, then: Optional[Callable[[Optional[BaseException]], None]]) -> Callable[..., None]:
        def end(error: Optional[BaseException]) -> None:
            self.moved()
            now, spent = time.perf_counter(), self.spent
            spent.seconds = now - self.begin
            self.row.add(spent)
            if self.timeline is not None:
                self.timeline.call(self.what, self.begin, now, id(self))
            if wanted("DEBUG"):
                fate = "" if error is None else f", failed: {error}"
                sys.stderr.write(f"r{self.rank} | {self.what}: {spent}{fate}\n")
            if then is not None:
                then(error)

        return end

    def moved(self) -> None:
        """Something could be done again."""
        if self.idle_since is not None:
            self.note("waiting", "waiting", self.idle_since)
            self.idle_since = None

    def note(self, sort: str, name: str, begin: float, values: int = 0) -> None:
        now = time.perf_counter()
        setattr(self.spent, sort, getattr(self.spent, sort) + now - begin)
        if self.timeline is not None and sort != "transfer":
            self.timeline.work(name, begin, now, values)


class WatchedPort:
    """A port that says how long its rank was in MPI, and how long it waited."""

    def __init__(self, port: Any, watch: Watch):
        self._port, self.watch = port, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def isend(self, buffer: Any, dest: int, tag: int) -> Any:
        return self._sent(self._port.isend, buffer, dest, tag)

    def lend(self, buffer: Any, dest: int, tag: int) -> Any:
        return self._sent(self._port.lend, buffer, dest, tag)

    def _sent(self, verb: Callable[..., Any], buffer: Any, dest: int, tag: int) -> Any:
        self.watch.spent.wire_bytes += buffer.nbytes
        return self._timed(verb, buffer, dest, tag)

    def irecv(self, buffer: Any, source: int, tag: int) -> Any:
        return self._timed(self._port.irecv, buffer, source, tag)

    def done(self, handles: Any) -> bool:
        begin = time.perf_counter()
        done = self._port.done(handles)
        if done:
            self.watch.moved()
        if self.watch.idle_since is None:
            self.watch.note("transfer", "test", begin)
        return done

    def busy(self) -> None:
        self.watch.moved()
        self._port.busy()

    def idle(self, run: Any) -> None:
        if self.watch.idle_since is None:
            self.watch.idle_since = time.perf_counter()
        self._port.idle(run)

    def _timed(self, verb: Callable[..., Any], *args: Any) -> Any:
        begin = time.perf_counter()
        result = verb(*args)
        self.watch.note("transfer", "message", begin)
        return result


class WatchedJob:
    """A job that says how long its arithmetic took."""

    def __init__(self, job: Any, watch: Watch):
        self._job, self._watch = job, watch

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._job, name)
        if name not in WORK:
            return verb

        def work(*args: Any) -> Any:
            begin = time.perf_counter()
            result = verb(*args)
            self._watch.note("codec", WORK[name], begin, amount(name, args))
            return result

        return work

    def among(self, rank: int, size: int) -> WatchedJob:
        return WatchedJob(self._job.among(rank, size), self._watch)
