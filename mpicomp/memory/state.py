"""What every memory can do: be reset, saved and restored."""

from __future__ import annotations

from typing import Any, Iterable

from ..arrays import beside


class State:
    """Arrays by name, and how many calls they have seen."""

    step = 0

    def arrays(self) -> Iterable[tuple[str, Any]]:
        """What is saved, by name."""
        raise NotImplementedError

    def advance(self) -> None:
        """A call is through."""
        self.step += 1

    def reset(self) -> None:
        """Forget everything; every rank must."""
        self.step = 0
        for _, array in self.arrays():
            array[:] = 0

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that is remembered: save each rank's own, and restore all of them."""
        return {"step": self.step, **{name: array.copy() for name, array in self.arrays()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        mine = dict(self.arrays())
        if set(state) != {"step", *mine} or any(state[name].shape != mine[name].shape for name in mine):
            raise ValueError(f"this state is of another collective: it has {sorted(state)}, expected {sorted(mine)}")
        self.step = int(state["step"])
        for name, array in mine.items():
            array[:] = beside(state[name], array)
