"""Requests of non-blocking and persistent collectives.

They offer mpi4py's Wait, Test, Start and Free, but are no MPI handles: MPI.Request.Waitall refuses them with a TypeError.
Request.Waitall, Waitany and Testall take these and MPI's own, mixed.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Sequence

from mpi4py import MPI

from . import engine, progress
from .checks import whole
from .engine import Run
from .memory.state import as_state, check_names


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

    _number: tuple[int, ...] = ()  # what it begins with

    def __init__(self, begin: Callable[..., Run]):
        super().__init__()
        self._begin: Optional[Callable[..., Run]] = begin

    def Start(self) -> None:
        self._run = self._ready()(*self._number)
        progress.watch(self._run)

    def _ready(self) -> Callable[..., Run]:
        """What begins it, if it can be started now."""
        if self._begin is None:
            raise RuntimeError("this request was freed")
        if self.under_way:
            raise RuntimeError("this request is under way; Wait for it before it is started again")
        return self._begin

    def Free(self) -> None:
        """Wait for what is under way, and let go of the buffers."""
        self.Wait()
        self._begin = None

    @staticmethod
    def Startall(requests: Sequence[Any]) -> None:
        for request in requests:
            request.Start()


class Together(Prequest):
    """Several requests as one. What those with a memory remember is saved under their numbers."""

    def __init__(self, requests: Sequence[Any]):
        super().__init__(lambda: None)  # type: ignore[arg-type, return-value]
        self._requests = list(requests)
        # Persistent ones wait for their first start; MPI's own do not tell whether they were started.
        self._once = any(_under_way(each) for each in requests if not isinstance(each, MPI.Prequest))
        self._started = self._once

    @property
    def under_way(self) -> bool:
        return self._started

    def Start(self) -> None:
        if self._once:
            raise RuntimeError("this request cannot be started again; Allreduce_init makes one that can")
        self._ready()
        self._started = True
        for request in self._requests:
            request.Start()

    def Wait(self, status: Any = None) -> bool:
        self._started = False
        return self.Waitall(self._requests)

    def Test(self, status: Any = None) -> bool:
        through = self.Testall(self._requests)
        if through:
            self._started = False
        return through

    def Free(self) -> None:
        self.Wait()
        if self._begin is not None and not self._once:
            for request in self._requests:
                request.Free()
        self._begin = None

    def state_dict(self) -> dict[str, Any]:
        return {name: request.state_dict() for name, request in self._memories().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave, on every rank. A state that does not fit is an error, and changes nothing."""
        memories = self._memories()
        check_names(state, memories, "collective")
        found = {name: request._checked(state[name]) for name, request in memories.items()}
        self.Wait()
        for name, request in memories.items():
            request._restore(found[name])

    def reset(self) -> None:
        for request in self._memories().values():
            request.reset()

    def _memories(self) -> dict[str, Any]:
        return {str(k): each for k, each in enumerate(self._requests) if isinstance(each, MemoryPrequest)}


class MemoryPrequest(Prequest):
    """A persistent collective with a memory, which can be read, saved, restored and reset between starts.

    `number`: the seed and the number of a call, which with the memory's step decide about the random numbers.
    """

    def __init__(self, begin: Callable[[int, int], Run], memory: Any, number: tuple[int, int]):
        super().__init__(begin)
        self._memory, self._number = memory, number
        memory.settle()

    def state_dict(self) -> dict[str, Any]:
        """What this rank remembers, and what its random numbers follow from: save each rank's own."""
        seed, number = self._number
        return {"seed": seed, "number": number, **self._memory.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave, on every rank. Where it has no seed and number, as it once had none, they stay.
        A state that does not fit is an error, and changes nothing."""
        found = self._checked(state)
        self.Wait()
        self._restore(found)

    def _checked(self, state: Any) -> tuple[tuple[int, int], dict[str, Any]]:
        given = {**dict(zip(("seed", "number"), self._number)), **as_state(state)}
        numbers = whole("seed", given.pop("seed")), whole("number", given.pop("number"), least=0)
        return numbers, self._memory.checked(given)

    def _restore(self, found: tuple[tuple[int, int], dict[str, Any]]) -> None:
        self._number, state = found
        self._memory.restore(state)

    def reset(self) -> None:
        """Start anew, on every rank."""
        self.Wait()
        self._memory.reset()
