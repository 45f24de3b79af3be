"""Collectives on tensors."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Union

import torch
from mpi4py import MPI

from .. import agreement, functional, topocomm
from ..arrays import flatten
from ..checks import whole
from ..collectives.base import meet, telling
from ..functional import compressed
from ..ports.mpi import port_of


class _SelfAdjoint(torch.autograd.Function):
    """A linear collective that is its own transpose: the gradient goes through the same collective."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, collective: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        ctx.collective = collective
        return collective(x.contiguous())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return _SelfAdjoint.apply(gradients[0], ctx.collective), None  # type: ignore[no-untyped-call]


def allreduce(
    x: torch.Tensor, op: str = "sum", codec: Any = None, comm: Optional[MPI.Comm] = None, **settings: Any
) -> torch.Tensor:
    """The sum or the mean of all ranks' x, as a new tensor. Differentiable: backward is an allreduce of the gradient."""
    return _SelfAdjoint.apply(  # type: ignore[no-untyped-call]
        x, lambda t: functional.allreduce(t, op=op, codec=codec, comm=comm, **settings)
    )


def neighbor_allreduce(
    x: torch.Tensor, comm: MPI.Comm, weights: Any = None, codec: Any = None, seed: Optional[int] = None
) -> torch.Tensor:
    """The average of x with the neighbours' tensors in the graph of `comm` (mpicomp.ring(...), ...), as a new tensor.

    Differentiable with the weights of the graph, which are symmetric; with weights= of one's own it is not: detach x.
    """
    if weights is not None and x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which is not known for weights= of one's own: pass x.detach()")
    return _SelfAdjoint.apply(  # type: ignore[no-untyped-call]
        x, lambda t: topocomm.neighbor_allreduce(t, comm, weights, codec, seed)
    )


def allreduce_(
    x: torch.Tensor, op: str = "sum", codec: Any = None, comm: Optional[MPI.Comm] = None, **settings: Any
) -> torch.Tensor:
    """As allreduce, in place; returns x. Not differentiable."""
    with torch.no_grad():
        x.copy_(functional.allreduce(x.detach().contiguous(), op=op, codec=codec, comm=comm, **settings))
    return x


def broadcast_parameters(parameters: Any, comm: Optional[MPI.Comm] = None, root: int = 0) -> None:
    """Give every rank the root's parameters, exactly: a module's state_dict(), named_parameters(), or tensors."""
    items = parameters.items() if isinstance(parameters, dict) else parameters
    named = [item if isinstance(item, tuple) else (str(k), item) for k, item in enumerate(items)]
    _broadcast_all(named, comm, root)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, comm: Optional[MPI.Comm] = None, root: int = 0) -> None:
    """Give every rank the root's optimizer state (momentum and the like). Every rank must have made the same steps,
    so that the same state exists everywhere."""
    states = getattr(optimizer, "optimizer", optimizer).state_dict()["state"]  # that of what ours wrap
    _broadcast_all([(f"{k} {name}", x) for k, state in states.items() for name, x in state.items()], comm, root)


def _broadcast_all(named: Iterable[tuple[Any, Any]], comm: Optional[MPI.Comm], root: int) -> None:
    """All tensors among these, after all ranks agree which there are."""
    tensors = [(name, x) for name, x in named if isinstance(x, torch.Tensor)]
    port = port_of(compressed(comm))
    with telling(port):
        if not 0 <= whole("root", root) < port.size:
            raise ValueError(f"root={root} is not one of the ranks 0 to {port.size - 1}")
    each = ", ".join(f"{name} {str(x.dtype)[6:]} {tuple(x.shape)}" for name, x in tensors)
    signature = f"broadcast({len(tensors)} tensors, root={root}: {each})"
    meet(port, signature, agreement.digest(signature), False, "broadcast", always=True)
    for _, tensor in tensors:
        _broadcast(tensor, comm or MPI.COMM_WORLD, root)


def _broadcast(tensor: torch.Tensor, comm: MPI.Comm, root: int) -> None:
    """MPI's own Bcast of the bytes: exact, whatever codec the communicator has."""
    data = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
    buffer = _bytes(data)
    MPI.Intracomm.Bcast(comm, [buffer, MPI.BYTE], root)
    if data.data_ptr() != tensor.data_ptr():
        with torch.no_grad():
            tensor.copy_(data)


def _bytes(tensor: torch.Tensor) -> Any:
    flat: Union[Any, None] = flatten(tensor)
    if flat is not None:
        return flat.data.view("u1")
    return tensor.reshape(-1).view(torch.uint8).numpy()
