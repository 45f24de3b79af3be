"""Collectives that MPI does by itself. It does them on the user's own communicator, as if mpicomp were not there.

But where MPICOMP_TIMEOUT or MPICOMP_CHECK=always is set when a communicator is made, it does them watched: on the private
communicator, without blocking, after the ranks have agreed on it. So a rank that never comes is an error like in a
compressed collective, and so is one that calls something else. This costs a small message more.

Arrays of a GPU pass through the host's memory, unless MPI is CUDA-aware: see staged.py.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import numpy as np
from mpi4py import MPI

from .. import agreement, buffers, engine
from ..ports.alarm import timeout
from ..ports.mpi import port_of
from ..request import Prequest, Request
from .staged import Staged, StagedRequest, on_gpu

_NONE: Mapping[str, Any] = {}
_OPS = ("SUM", "MAX", "MIN", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR", "MAXLOC", "MINLOC")


def watched() -> bool:
    """Whether collectives of a new communicator are to be watched, all of them."""
    return timeout() < float("inf") or agreement.checking() == "always"


def shape(name: str, args: Sequence[Any], settings: Mapping[str, Any] = _NONE) -> Any:
    """What tells a call that goes to MPI untouched again; None if it must be looked at closely.

    Large arrays drive Python itself out of the caches: to look closely takes half a millisecond after them."""
    plain = [x for x in args[:2] if type(x) is np.ndarray]
    if not plain or any(isinstance(x, (list, tuple)) for x in args):
        return None
    asked = [item for item in settings.items() if item[0] != "seed"]  # of which a call may have one of its own
    if not all(isinstance(value, (str, int)) for _, value in asked):
        return None
    return (name, *((x.dtype.char, x.size) for x in plain), *(x for x in args if isinstance(x, int)), *asked)


def now(comm: Any, name: str, args: Sequence[Any], call: Any = None) -> None:
    """MPI's collective of that name with mpi4py's arguments. `call` is what was planned to be MPI's, if it was planned."""
    if comm._watched:
        engine.wait(_start(comm, name, args, call))
    elif on_gpu(args):
        staged = Staged(name, args).mark()
        staged.take()
        getattr(comm._handle, name)(comm, *staged.args)
        staged.land()
    else:
        getattr(comm._handle, name)(comm, *args)


def later(comm: Any, name: str, args: Sequence[Any], call: Any = None) -> Any:
    """The same, as a request of MPI's own: to ask the ranks whether they agree it would have to wait, or to be another."""
    if comm._watched:
        return Request(_start(comm, name, args, call))
    begin = getattr(comm._handle, "I" + name.lower())
    if on_gpu(args):
        staged = Staged(name, args).mark()
        staged.take()
        return StagedRequest(staged, begin(comm, *staged.args), under_way=True)
    return begin(comm, *args)


def again(comm: Any, name: str, args: Sequence[Any], info: MPI.Info, call: Any = None) -> Any:
    """The same, as a persistent request."""
    if comm._watched:
        return Prequest(lambda: _start(comm, name, args, call))
    make = getattr(comm._handle, name + "_init")
    if on_gpu(args):
        staged = Staged(name, args)
        return StagedRequest(staged, make(comm, *staged.args, info))
    return make(comm, *args, info)


def _start(comm: Any, name: str, args: Sequence[Any], call: Any) -> engine.Run:
    """The watched form, under way."""
    port = port_of(comm)
    signature = f"{name}({_words(name, args)}) by MPI" if call is None else call.signature
    digest = agreement.digest(signature)
    begin, tag = getattr(comm._handle(port.comm), "I" + name.lower()), port.tag(digest)
    number, staged = port.calls, Staged(name, args).mark() if on_gpu(args) else None

    def lane() -> Iterator[Any]:
        port.heed(number)  # a rank that only sends would not notice that the others have given up
        if staged is None:
            yield [begin(*args)]
        else:
            staged.take()
            yield [begin(*staged.args)]
            staged.land()

    check = agreement.agree(port, signature, digest, always=True)
    return engine.Run(port, [lane()], prologue=check, label=name, tag=tag)


def _words(name: str, args: Sequence[Any]) -> str:
    """What must be the same on all ranks, as far as it can be seen: bytes, operation, root."""
    spec = args[1] if buffers.in_place(args[0]) else args[0]
    words = [f"{nbytes(spec)} bytes"] if name in ("Allreduce", "Bcast", "Reduce", "Reduce_scatter_block") else []
    ops = [next((name for name in _OPS if x == getattr(MPI, name)), "own") for x in args if isinstance(x, MPI.Op)]
    return ", ".join([*words, *(f"op={op}" for op in ops), *(f"root={x}" for x in args if isinstance(x, int))])


def nbytes(spec: Any) -> Any:
    """Bytes of data of a buffer, as far as its description tells."""
    data, count, displ, datatype = spec, None, None, None
    if isinstance(spec, (list, tuple)):
        try:
            data, count, displ, datatype = buffers.parts(spec, "buffer")
        except ValueError:
            return "some"  # mpi4py will say what is wrong
    if count is not None:
        size = datatype.Get_size() if isinstance(datatype, MPI.Datatype) else getattr(data, "itemsize", None)
        return "some" if size is None else int(count) * size
    plain = displ is None and (not isinstance(datatype, MPI.Datatype) or datatype.is_predefined)
    return getattr(data, "nbytes", "some") if plain else "some"
