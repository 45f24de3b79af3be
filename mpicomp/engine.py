"""Drives schedules. Written once for blocking, non-blocking and persistent collectives, on MPI and in the simulator."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Iterable, Iterator, Optional


class Run:
    """One collective under way on one rank.

    `prologue` runs alone; then the lanes, up to `depth` of them at a time, whichever is ready, older ones first.
    Each is a generator that yields the messages it waits for. `finish` is called once at the end, with the error or None.
    `call` is its number among the collectives of the port, the same on all ranks. Its lanes begin when no run is under way
    whose messages have the same tags: they tell only the last port.window calls apart.
    """

    def __init__(
        self,
        port: Any,
        lanes: Iterable[Iterator[Any]],
        depth: int = 4,
        prologue: Optional[Iterator[Any]] = None,
        finish: Optional[Callable[[Optional[BaseException]], None]] = None,
        label: str = "",
        tag: Optional[int] = None,
    ):
        self.port = port
        self.label, self.tag = label, tag
        self.call = port.calls
        self.done = False
        self.error: Optional[BaseException] = None
        self._depth = depth if prologue is None else 1
        self._full_depth = depth
        self._lanes: deque[tuple[Iterator[Any], Any]] = deque()
        with port.lock:
            port.check()  # a thread may have seen it fail since the caller last did
            lanes, self._finish = port.aboard(lanes, finish)
            self._waiting = iter(lanes)
            port.active.append(self)
            if prologue is not None:
                self._resume(prologue)

    def advance(self) -> bool:
        """Do the next thing that can be done without waiting; False if there is none."""
        if self.done:
            return False
        try:
            return self._advance()
        except BaseException as error:
            self.abandon(error)
            raise

    def abandon(self, error: BaseException) -> None:
        """End with an error, which whoever waits for this run gets. The port keeps what messages under way still use."""
        self.error = error
        if not getattr(error, "settled", False):
            self.port.ruins.append(self)
        self._end()

    @property
    def title(self) -> str:
        """What people are told that this is."""
        return f"{self.label or 'collective'} #{self.call}"

    def pending(self) -> list[Any]:
        """Every message that a lane waits for."""
        return [handle for _, handles in self._lanes for handle in handles]

    def _advance(self) -> bool:
        for index, (lane, handles) in enumerate(self._lanes):
            if self.port.done(handles):
                del self._lanes[index]
                self._resume(lane, index)
                return True
        if len(self._lanes) < self._depth and self.call - self.port.active[0].call < self.port.window:
            lane = next(self._waiting, None)  # type: ignore[arg-type]
            if lane is not None:
                self._resume(lane, len(self._lanes))
                return True
            if not self._lanes:
                self._end()
                return True
        return False

    def _resume(self, lane: Iterator[Any], index: int = 0) -> None:
        try:
            self._lanes.insert(index, (lane, next(lane)))
        except StopIteration:
            self._depth = self._full_depth  # whatever ended, the prologue has

    def _end(self) -> None:
        if self.done:  # and what raised is `finish`
            return
        self.done = True
        self.port.active.remove(self)
        if self._finish is not None:
            self._finish(self.error)


def wait(run: Run) -> None:
    """Advance all runs of the port until this one is through."""
    with run.port.lock:
        _drive(run, lambda moved: True)


def test(run: Run) -> bool:
    """Advance all runs of the port as far as they go without waiting; whether this one is through."""
    with run.port.lock:
        _drive(run, lambda moved: moved)
    return run.done


def _drive(run: Run, go_on: Callable[[bool], bool]) -> None:
    port, moved = run.port, True
    try:
        while not run.done and go_on(moved):
            moved = False
            for other in list(port.active):
                moved = other.advance() or moved
            if moved:
                port.busy()
            elif not run.done:
                port.idle(run)
    except BaseException as error:
        port.fail(error)
        raise
    if run.error is not None:
        port.fail(run.error)  # it has, but now the caller knows
        raise run.error
