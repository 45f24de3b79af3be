"""What the optimizers here have in common: each is a torch.optim.Optimizer around another one."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional
from weakref import WeakMethod

import torch


class Wrapper(torch.optim.Optimizer):
    """Passes everything on to `optimizer`, so that schedulers and gradient scalers take it for what it wraps."""

    _step_supports_amp_scaling = False  # of the inner one, which would not get what a gradient scaler writes here

    def __init__(self, optimizer: torch.optim.Optimizer):  # the parent's is not called: its state is the inner one's
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise TypeError(
                f"{type(optimizer).__name__} evaluates its closure several times a step, which is not supported"
            )
        self.optimizer = optimizer
        self._parameters = trained(optimizer)
        self._hooks: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, as its communicator cannot: use state_dict()"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.optimizer!r})"

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        raise NotImplementedError("add parameters to the inner optimizer before it is wrapped")

    def remove_hooks(self) -> None:
        """Leave the parameters' gradients alone from now on. As when the last reference to this optimizer goes."""
        for hook in self._hooks:
            hook.remove()

    def _hook(self, made: Callable[[torch.Tensor], None]) -> None:
        """Call `made` for every gradient that backward makes, as long as this optimizer is there."""
        reference = WeakMethod(made)

        def call(parameter: torch.Tensor) -> None:
            method = reference()
            if method is not None:
                method(parameter)

        self._hooks = [p.register_post_accumulate_grad_hook(call) for p in self._parameters]

    def _check_parameters(self) -> None:
        """Raise if others are trained than when this was made: the ranks would drift apart."""
        if [*map(id, trained(self.optimizer))] != [*map(id, self._parameters)]:
            raise RuntimeError(
                "the parameters that are trained are no longer those from when the optimizer was wrapped "
                "(requires_grad, add_param_group): wrap the inner optimizer again"
            )


def evaluate(closure: Optional[Callable[[], Any]]) -> Any:
    """What a closure returns; it makes gradients."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def trained(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters that an optimizer changes."""
    return [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
