"""Requests of non-blocking and persistent collectives.

They offer mpi4py's Wait, Test, Start and Free, but are no MPI handles: MPI.Request.Waitall refuses them with a TypeError.
Request.Waitall, Waitany and Testall take these and MPI's own, mixed.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Sequence

from mpi4py import MPI

from . import engine, progress
from .engine import Run


class Request:
    """A collective that is under way."""

    def __init__(self, run: Optional[Run] = None):
        self._run = run
        if run is not None:
            progress.watch(run)

    @property
    def under_way(self) -> bool:
        """Whether there is something to wait for, or that nobody has waited for."""
        return self._run is not None

    def Wait(self, status: Any = None) -> bool:
        """Return when the result is there."""
        if self._run is not None:
            run, self._run = self._run, None
            engine.wait(run)
        return True

    def Test(self, status: Any = None) -> bool:
        """Make progress without waiting; whether the result is there."""
        if self._run is not None and engine.test(self._run):
            self._run = None
        return self._run is None

    def wait(self, status: Any = None) -> None:
        self.Wait()

    def test(self, status: Any = None) -> tuple[bool, None]:
        return self.Test(), None

    @staticmethod
    def Waitall(requests: Sequence[Any], statuses: Any = None) -> bool:
        for request in requests:
            request.Wait()
        return True

    @staticmethod
    def Testall(requests: Sequence[Any], statuses: Any = None) -> bool:
        return all([request.Test() for request in requests])

    @staticmethod
    def Waitany(requests: Sequence[Any], status: Any = None) -> int:
        """The first that ends, of those under way; MPI.UNDEFINED if none is."""
        under_way = [(index, request) for index, request in enumerate(requests) if _under_way(request)]
        while under_way:
            for index, request in under_way:
                if request.Test():
                    return index
            os.sched_yield()
        return MPI.UNDEFINED


def _under_way(request: Any) -> bool:
    return getattr(request, "under_way", request != MPI.REQUEST_NULL)  # MPI's own are null when they are through


class Prequest(Request):
    """A collective that can be started again and again. What it remembers between two starts is its own."""

    def __init__(self, begin: Callable[[], Run]):
        super().__init__()
        self._begin: Optional[Callable[[], Run]] = begin

    def Start(self) -> None:
        if self._begin is None:
            raise RuntimeError("this request was freed")
        if self._run is not None:
            raise RuntimeError("this request is under way; Wait for it before it is started again")
        self._run = self._begin()
        progress.watch(self._run)

    def Free(self) -> None:
        """Wait for what is under way, and let go of the buffers."""
        self.Wait()
        self._begin = None

    @staticmethod
    def Startall(requests: Sequence[Any]) -> None:
        for request in requests:
            request.Start()


class MemoryPrequest(Prequest):
    """A persistent collective with a memory, which can be read, saved, restored and reset between starts."""

    def __init__(self, begin: Callable[[], Run], memory: Any):
        super().__init__(begin)
        self._memory = memory

    def state_dict(self) -> dict[str, Any]:
        """What this rank remembers: save each rank's own."""
        return self._memory.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave, on every rank."""
        empty = [name for name, value in state.items() if value is None]
        if empty:
            raise ValueError(f"this state has None for {', '.join(map(repr, empty))}, where state_dict gave an array")
        self.Wait()
        self._memory.load_state_dict(state)

    def reset(self) -> None:
        """Start anew, on every rank."""
        self.Wait()
        self._memory.reset()
