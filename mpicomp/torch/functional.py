"""Collectives on tensors."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Union

import torch
from mpi4py import MPI

from .. import functional
from ..arrays import flatten


class _Allreduce(torch.autograd.Function):
    """The gradient of a sum over all ranks is the sum over all ranks of the gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, settings: dict[str, Any]) -> torch.Tensor:
        ctx.settings = settings
        return functional.allreduce(x.contiguous(), **settings)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return functional.allreduce(gradients[0].contiguous(), **ctx.settings), None


def allreduce(
    x: torch.Tensor, op: str = "sum", codec: Any = None, comm: Optional[MPI.Comm] = None, **settings: Any
) -> torch.Tensor:
    """The sum or the mean of all ranks' x, as a new tensor. Differentiable: backward is an allreduce of the gradient."""
    settings.update(op=op, codec=codec, comm=comm)
    if x.requires_grad and torch.is_grad_enabled():
        return _Allreduce.apply(x, settings)  # type: ignore[no-untyped-call]
    return functional.allreduce(x.contiguous(), **settings)


def allreduce_(
    x: torch.Tensor, op: str = "sum", codec: Any = None, comm: Optional[MPI.Comm] = None, **settings: Any
) -> torch.Tensor:
    """As allreduce, in place; returns x. Not differentiable."""
    with torch.no_grad():
        x.copy_(functional.allreduce(x.detach().contiguous(), op=op, codec=codec, comm=comm, **settings))
    return x


def broadcast_parameters(parameters: Any, comm: Optional[MPI.Comm] = None, root: int = 0) -> None:
    """Give every rank the root's parameters, exactly: a module's state_dict(), named_parameters(), or tensors."""
    tensors = parameters.values() if isinstance(parameters, dict) else parameters
    for item in tensors:
        tensor = item[1] if isinstance(item, tuple) else item
        if isinstance(tensor, torch.Tensor):
            _broadcast(tensor, comm or MPI.COMM_WORLD, root)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, comm: Optional[MPI.Comm] = None, root: int = 0) -> None:
    """Give every rank the root's optimizer state (momentum and the like). Every rank must have made the same steps,
    so that the same state exists everywhere."""
    comm = comm or MPI.COMM_WORLD
    for state in optimizer.state_dict()["state"].values():
        for tensor in _tensors(state.values()):
            _broadcast(tensor, comm, root)


def _tensors(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    return (value for value in values if isinstance(value, torch.Tensor))


def _broadcast(tensor: torch.Tensor, comm: MPI.Comm, root: int) -> None:
    """MPI's own Bcast of the bytes: exact, whatever codec the communicator has."""
    data = tensor.detach().contiguous()
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
