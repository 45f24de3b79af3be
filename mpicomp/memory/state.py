"""What every memory can do: be reset, saved and restored."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from ..arrays import beside, is_cupy, settle
from ..checks import whole


class State:
    """Arrays by name, and how many calls they have seen."""

    step = 0

    def arrays(self) -> Iterable[tuple[str, Any]]:
        """What is saved, by name."""
        raise NotImplementedError

    def settle(self) -> None:
        """On a GPU: wait until nobody writes or reads it."""
        settle(next((array for _, array in self.arrays()), None))

    def advance(self) -> None:
        """A call is through."""
        self.step += 1

    def reset(self) -> None:
        """Forget everything; every rank must."""
        self.settle()
        self.step = 0
        for _, array in self.arrays():
            array[:] = 0
        self.settle()

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that is remembered: save each rank's own, and restore all of them."""
        self.settle()
        return {"step": self.step, **{name: array.copy() for name, array in self.arrays()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave. A state that does not fit is an error, and changes nothing."""
        self.restore(self.checked(state))

    def checked(self, state: Any) -> dict[str, Any]:
        """A state that `restore` can write."""
        return checked(state, dict(self.arrays()), ["step"], "collective")

    def restore(self, state: dict[str, Any]) -> None:
        """Write what `checked` gave."""
        self.settle()
        self.step = state["step"]
        write(state, dict(self.arrays()))
        self.settle()


def checked(state: Any, mine: Mapping[str, Any], counts: Sequence[str], owner: str, **same: str) -> dict[str, Any]:
    """The values of a state, if it has all `counts`, the `same` words, and arrays that fit `mine`; nothing is written."""
    check_names(state, [*counts, *same, *mine], owner)
    for name, word in same.items():
        if state[name] != word:
            raise ValueError(f"this state is of another {owner}: its {name} is {state[name]!r}, expected {word!r}")
    numbers = {name: whole(name, state[name], least=None if name == "seed" else 0) for name in counts}
    return {**numbers, **{name: _fitting(name, state[name], array, owner) for name, array in mine.items()}}


def as_state(state: Any) -> Mapping[str, Any]:
    """state, if it is a dict."""
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is the dict that state_dict gave, not {_words(state)}")
    return state


def check_names(state: Any, expected: Iterable[str], owner: str) -> None:
    """A state must be a dict with the expected names."""
    if set(as_state(state)) != set(expected):
        found = sorted(map(str, state))
        raise ValueError(f"this state is of another {owner}: it has {found}, expected {sorted(expected)}")


def write(state: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """Copy the arrays of a checked state."""
    for name, array in mine.items():
        array[:] = state[name]


def _fitting(name: str, value: Any, mine: Any, owner: str) -> Any:
    """value as an array where `mine` is, with its shape, and of numbers that it can hold."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise ValueError(f"this state has {_words(value)} for {name!r}, where state_dict gave an array")
    if tuple(value.shape) != mine.shape:
        raise ValueError(
            f"this state is of another {owner}: {name!r} has shape {tuple(value.shape)}, expected {mine.shape}"
        )
    found = beside(value, mine)
    found = found if is_cupy(found) else np.asarray(found)
    if not np.can_cast(found.dtype, mine.dtype, "same_kind"):
        raise ValueError(f"this state has {found.dtype} numbers for {name!r}, expected {mine.dtype}")
    return found


def _words(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
