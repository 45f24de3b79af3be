"""DistributedOptimizer: an optimizer that averages gradients over all ranks, compressed, while backward runs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Callable, Iterable, Mapping, Optional

import torch
from mpi4py import MPI

from ..functional import compressed
from ..settings import Settings
from .buckets import Bucket

BUCKET = 25 << 20  # bytes, as torch's DistributedDataParallel


class DistributedOptimizer:
    """Wraps an optimizer: `backward` starts the averaging of gradients, `step` waits for it and steps.

    Buckets are filled in the reverse order of the parameters, the order in which backward makes gradients, and started
    in the same order on every rank. `codec` may be a rule, as in Comm.Allreduce: a mapping from patterns of names.
    To clip gradients, call `synchronize()` first; `step` does not wait again.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        comm: Optional[MPI.Comm] = None,
        codec: Any = None,
        named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]] = None,
        algorithm: Optional[str] = None,
        bucket_bytes: int = BUCKET,
    ):
        self.optimizer = optimizer
        self.comm = compressed(comm)
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        names = {id(p): name for name, p in named_parameters or ()}
        self._choose = _chooser(codec, self.comm._settings, algorithm)
        self.buckets = _buckets(parameters, names, self._choose, bucket_bytes)
        self._next = 0  # the next bucket to be started
        self._enabled = True
        self._bucket_of = {id(p): bucket for bucket in self.buckets for p in bucket.parameters}
        self._hooks = [p.register_post_accumulate_grad_hook(self._made) for p in parameters]

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Wait for the averaged gradients, then step. A closure is evaluated first, its gradients are averaged."""
        if closure is None:
            self.synchronize()
            return self.optimizer.step()
        with torch.enable_grad():
            loss = closure()
        self.synchronize()
        self.optimizer.step()
        return loss

    def synchronize(self) -> None:
        """Wait until every gradient is the mean over all ranks. Does nothing the second time."""
        if self._next or any(bucket.ready for bucket in self.buckets):
            self._start(len(self.buckets))
            for bucket in self.buckets:
                bucket.wait()
            self._next = 0

    def no_sync(self) -> Any:
        """A context in which backward only accumulates."""
        return _Paused(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "calls": self.comm._calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.comm._calls = state["calls"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["optimizer"], name)

    def _made(self, parameter: torch.nn.Parameter) -> None:
        """Called by autograd when a gradient is there."""
        if self._enabled:
            self._bucket_of[id(parameter)].mark(parameter)
            ready = self._next
            while ready < len(self.buckets) and self.buckets[ready].complete:
                ready += 1
            self._start(ready)

    def _start(self, end: int) -> None:
        while self._next < end:
            self.buckets[self._next].start(self.comm)
            self._next += 1


class _Paused:
    def __init__(self, optimizer: DistributedOptimizer):
        self.optimizer = optimizer

    def __enter__(self) -> None:
        self.optimizer._enabled = False

    def __exit__(self, *error: Any) -> None:
        self.optimizer._enabled = True


def _chooser(codec: Any, settings: Settings, algorithm: Optional[str]) -> Callable[[str, torch.Tensor], Settings]:
    def choose(name: str, parameter: torch.Tensor) -> Settings:
        rule = codec
        if isinstance(codec, Mapping):
            rule = next((value for pattern, value in codec.items() if fnmatchcase(name, pattern)), None)
        elif callable(codec):
            rule = codec(name, parameter)
        return settings.override(rule, algorithm)

    return choose


def _buckets(
    parameters: list[torch.nn.Parameter],
    names: dict[int, str],
    choose: Callable[[str, torch.Tensor], Settings],
    most: int,
) -> list[Bucket]:
    """Buckets of at most `most` bytes, each of one type and codec, in the reverse order of the parameters."""
    buckets: list[Bucket] = []
    open_ones: dict[Any, list[torch.nn.Parameter]] = {}
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        key = (parameter.dtype, choose(names.get(id(parameter), str(index)), parameter))
        group = open_ones.setdefault(key, [])
        group.append(parameter)
        if sum(p.numel() * p.element_size() for p in group) >= most:
            buckets.append(Bucket(open_ones.pop(key), key[1]))
    return buckets + [Bucket(group, key[1]) for key, group in open_ones.items()]
