"""HOW MESSAGES TRAVEL. One algorithm a file, each a generator that yields the messages it waits for.

A schedule knows ranks, ranges of elements and bytes; it sees no framework, no bits and no MPI. `port` sends and
receives, `job` encodes, sums and decodes ranges. Several lanes (segments of one collective) run at once.
"""

from __future__ import annotations

from typing import Any, Callable

from . import facts
from . import halving as _halving
from . import hierarchical as _hierarchical
from .direct import direct
from .gather import gather
from .ring import ring
from .server import server

__all__ = ["ALLREDUCE", "OWNERS", "check", "facts", "parse"]

ALLREDUCE: dict[str, Callable[..., Any]] = {
    "direct": direct,
    "ring": ring,
    "halving": _halving.halving,
    "gather": gather,
    "server": server,
    "hierarchical": _hierarchical.hierarchical,
}
# Into how many owners' parts the array is cut, where that is not the number of ranks
OWNERS: dict[str, Callable[..., int]] = {
    "halving": _halving.owners,
    "gather": lambda port: 1,
    "server": lambda port, root=0: 1,
    "hierarchical": _hierarchical.owners,
}
OPTIONS = {"server": ("root",), "hierarchical": ("nodes_of",)}


def parse(spec: str) -> tuple[str, dict[str, int]]:
    """("server", {"root": 2}) from "server:root=2". Raises ValueError, saying what is possible."""
    name, _, settings = spec.partition(":")
    known = OPTIONS.get(name, ())
    options = {}
    for item in filter(None, settings.split(",")):
        key, _, value = item.partition("=")
        if key.strip() not in known or not value.strip().isdecimal():
            possible = ", ".join(f"{name}:{option}=NUMBER" for option in known) or f"no settings of {name}"
            raise ValueError(f"algorithm {spec!r}: {item!r} is not understood (possible: {possible})")
        options[key.strip()] = int(value)
    return name, options


def check(spec: str, p: int) -> None:
    """Raises ValueError if an algorithm is not possible on p ranks."""
    name, options = parse(spec)
    if options.get("root", 0) >= p:
        raise ValueError(f"algorithm {spec!r}: there are ranks 0 to {p - 1} only")
    if options.get("nodes_of", 1) < 1:
        raise ValueError(f"algorithm {spec!r}: a node has at least one rank")
