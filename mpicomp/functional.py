"""Collectives as functions on any array: a new array of the same kind comes back."""

from __future__ import annotations

from typing import Any, Optional

from mpi4py import MPI

from . import arrays
from .codecs.base import divide
from .collectives import untouched
from .collectives.allreduce import prepare
from .comm import Comm
from .errors import CodecError, SettingError
from .ports.device import in_turn
from .ports.mpi import kept


def allreduce(
    x: Any,
    op: str = "sum",
    codec: Any = None,
    comm: Optional[MPI.Comm] = None,
    algorithm: Optional[str] = None,
    seed: Optional[int] = None,
) -> Any:
    """The sum or the mean of all ranks' x, as a new array like x. `comm` is COMM_WORLD unless given.

    Without codec= it is that of `comm` if that is an mpicomp.Comm, else MPICOMP_CODEC or natural.
    """
    comm, mean = compressed(comm), op == "mean"
    if op not in ("sum", "mean"):
        comm._refuse(SettingError(f"op={op!r} must be 'sum' or 'mean'"))
    out = arrays.empty_like(x)
    call = prepare(comm, x, out, MPI.SUM, lambda: comm._settings.override(codec, algorithm, seed), mean)
    if call is not None:
        comm._complete(call, seed)
        if mean and call.plan.algorithm == "raw":
            with in_turn(call.out.data):
                divide(call.out.data, comm.size)
    elif mean:
        comm._refuse(CodecError(f"a mean needs floating-point data, not {getattr(x, 'dtype', type(x).__name__)}"))
    else:
        untouched.now(comm, "Allreduce", (arrays.detached(x), out, MPI.SUM))
    return out


def compressed(comm: Optional[MPI.Comm] = None) -> Comm:
    """The mpicomp.Comm of a plain communicator: one for each, kept with it, so that its calls are counted."""
    if isinstance(comm, Comm):
        return comm
    plain = MPI.COMM_WORLD if comm is None else comm
    return kept(plain, "compressed", lambda: Comm(plain))
