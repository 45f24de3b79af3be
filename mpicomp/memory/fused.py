"""The memory of many arrays that travel as one: each array's own."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from ..fusion import FusedReduction
from ..job import Reduction
from .state import State


class FusedMemory(State):
    """The memories of arrays, in their order."""

    def __init__(self, parts: Sequence[Any]):
        self.parts = list(parts)
        self.name = self.parts[0].name

    def job(self, *args: Any) -> Reduction:
        return FusedReduction(*args, [part.job for part in self.parts])  # type: ignore[call-arg]

    def arrays(self) -> Iterable[tuple[str, Any]]:
        return [(f"{k} {name}", array) for k, part in enumerate(self.parts) for name, array in part.arrays()]
