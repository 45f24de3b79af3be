"""Requests of non-blocking and persistent collectives.

They offer mpi4py's Wait, Test, Start and Free, but are no MPI handles: MPI.Request.Waitall refuses them with a TypeError.
Request.Waitall, Waitany and Testall take these and MPI's own, mixed.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Sequence

from . import engine, progress
from .engine import Run


class Request:
    """A collective that is under way."""

    def __init__(self, run: Optional[Run] = None):
        self._run = run
        if run is not None:
            progress.watch(run)

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
        while True:
            for index, request in enumerate(requests):
                if request.Test():
                    return index
            os.sched_yield()


class Prequest(Request):
    """A collective that can be started again and again. What it remembers between two starts is its own."""

    _number: tuple[int, ...] = ()  # what it begins with

    def __init__(self, begin: Callable[..., Run]):
        super().__init__()
        self._begin: Optional[Callable[..., Run]] = begin

    def Start(self) -> None:
        if self._begin is None:
            raise RuntimeError("this request was freed")
        if self._run is not None:
            raise RuntimeError("this request is under way; Wait for it before it is started again")
        self._run = self._begin(*self._number)
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
    """A persistent collective with a memory, which can be read, saved, restored and reset between starts.

    `number`: the seed and the number of a call, which with the memory's step decide about the random numbers.
    """

    def __init__(self, begin: Callable[[int, int], Run], memory: Any, number: tuple[int, int]):
        super().__init__(begin)
        self._memory, self._number = memory, number

    def state_dict(self) -> dict[str, Any]:
        """What this rank remembers, and what its random numbers follow from: save each rank's own."""
        seed, number = self._number
        return {"seed": seed, "number": number, **self._memory.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave, on every rank. Where it has no seed and number, as it once had none, they stay."""
        self.Wait()
        seed, number = self._number
        self._memory.load_state_dict({key: value for key, value in state.items() if key not in ("seed", "number")})
        self._number = int(state.get("seed", seed)), int(state.get("number", number))

    def reset(self) -> None:
        """Start anew, on every rank."""
        self.Wait()
        self._memory.reset()
