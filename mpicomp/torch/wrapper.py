"""What the optimizers here have in common: each is a torch.optim.Optimizer around another one."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch


class Wrapper(torch.optim.Optimizer):
    """Passes everything on to `optimizer`, so that schedulers and gradient scalers take it for what it wraps."""

    def __init__(self, optimizer: torch.optim.Optimizer):  # the parent's is not called: its state is the inner one's
        self.optimizer = optimizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["optimizer"], name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.optimizer!r})"

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        raise NotImplementedError("add parameters to the inner optimizer before it is wrapped")


def evaluate(closure: Optional[Callable[[], Any]]) -> Any:
    """What a closure returns; it makes gradients."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def trained(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters that an optimizer changes."""
    return [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
