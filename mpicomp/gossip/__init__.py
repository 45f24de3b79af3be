"""DECENTRALIZED AVERAGING. One method a file; each is `Method(comm, params)` with `mix(x)` and `step(x, update)`.

`comm` is a communicator with a graph (mpicomp.ring(comm), ...). `Workers` runs a method on virtual ranks instead.
"""

from __future__ import annotations

from typing import Any

from .base import Gossip
from .choco import Choco
from .dcd import DCD
from .deepsqueeze import DeepSqueeze
from .dpsgd import DPSGD
from .ecd import ECD
from .naive import Naive
from .powergossip import PowerGossip
from .virtual import Workers

METHODS = {method.__name__.lower(): method for method in (DPSGD, Naive, DCD, ECD, Choco, DeepSqueeze, PowerGossip)}


def find(method: Any) -> Any:
    """A method by its name ("power-gossip"); a class is returned as it is."""
    if not isinstance(method, str):
        return method
    name = method.lower().replace("-", "").replace("_", "")
    if name not in METHODS:
        raise ValueError(f"no gossip method named {method!r} (known: {', '.join(sorted(METHODS))})")
    return METHODS[name]


__all__ = [
    "DCD",
    "DPSGD",
    "ECD",
    "METHODS",
    "Choco",
    "DeepSqueeze",
    "Gossip",
    "Naive",
    "PowerGossip",
    "Workers",
    "find",
]
