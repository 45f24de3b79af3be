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


class Together(Prequest):
    """Several requests as one. What those with a memory remember is saved under their numbers."""

    def __init__(self, requests: Sequence[Any]):
        super().__init__(lambda: None)  # type: ignore[arg-type, return-value]
        self._requests = list(requests)

    def Start(self) -> None:
        for request in self._requests:
            request.Start()

    def Wait(self, status: Any = None) -> bool:
        return self.Waitall(self._requests)

    def Test(self, status: Any = None) -> bool:
        return self.Testall(self._requests)

    def Free(self) -> None:
        for request in self._requests:
            request.Free()

    def state_dict(self) -> dict[str, Any]:
        return {name: request.state_dict() for name, request in self._memories().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        memories = self._memories()
        if set(state) != set(memories):
            raise ValueError(
                f"this state is of another collective: it has {sorted(state)}, expected {sorted(memories)}"
            )
        for name, request in memories.items():
            request.load_state_dict(state[name])

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

    def state_dict(self) -> dict[str, Any]:
        """What this rank remembers, and what its random numbers follow from: save each rank's own."""
        seed, number = self._number
        return {"seed": seed, "number": number, **self._memory.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave, on every rank. Where it has no seed and number, as it once had none, they stay."""
        empty = [name for name, value in state.items() if value is None]
        if empty:
            raise ValueError(f"this state has None for {', '.join(map(repr, empty))}, where state_dict gave an array")
        self.Wait()
        seed, number = self._number
        self._memory.load_state_dict({key: value for key, value in state.items() if key not in ("seed", "number")})
        self._number = int(state.get("seed", seed)), int(state.get("number", number))

    def reset(self) -> None:
        """Start anew, on every rank."""
        self.Wait()
        self._memory.reset()
