"""What may fail on one rank alone, such as reading a file: the others must not wait for it."""

from __future__ import annotations

from typing import Any, Callable

from ..errors import Error


def together(comm: Any, job: Callable[..., Any], *args: Any) -> Any:
    """job(*args) on every rank. If it fails on some, all raise the Error of the first of them. Collective."""
    result, fault = None, ""
    try:
        result = job(*args)
    except (Error, OSError) as error:
        fault = str(error) or type(error).__name__
    for rank, each in enumerate(comm.allgather(fault)):
        if each:
            raise Error(fault or f"{each} (on rank {rank})")
    return result


def on_first(comm: Any, job: Callable[..., Any], *args: Any) -> None:
    """The same for what rank 0 does for all."""
    together(comm, job if comm.rank == 0 else lambda *_: None, *args)
