"""DistributedOptimizer: an optimizer that averages gradients over all ranks, compressed, while backward runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Optional

import torch
from mpi4py import MPI

from ..functional import compressed
from .buckets import MOST, chooser, fill, named
from .tensors import dense
from .wrapper import Wrapper, evaluate, trained


class DistributedOptimizer(Wrapper):
    """Wraps an optimizer: `backward` starts the averaging of gradients, `step` waits for it and steps.

    Buckets are filled in the reverse order of the parameters, the order in which backward makes gradients, and started
    in the same order on every rank. `codec` may be a rule, as in Comm.Allreduce: a mapping from patterns of names.
    Whoever looks at gradients before `step` (to clip them, to unscale them) calls `synchronize()` first; `step` does
    not wait again. A gradient that backward did not make counts as zero. feedback=True, or "ef21", sends later what
    compression left out, as codecs need that are biased (topk, sign). `bytes_sent` counts.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        comm: Optional[MPI.Comm] = None,
        codec: Any = None,
        named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]] = None,
        algorithm: Optional[str] = None,
        bucket_bytes: int = MOST,
        feedback: Any = False,
    ):
        super().__init__(optimizer)
        self.comm = compressed(comm)
        parameters = trained(optimizer)
        choose = chooser(self.comm._settings, codec, algorithm, feedback)
        self.buckets = fill(parameters, named(parameters, named_parameters), choose, bucket_bytes)
        self._next = 0  # the next bucket to be started
        self._enabled = True
        self._bucket_of = {id(p): bucket for bucket in self.buckets for p in bucket.parameters}
        self._hooks = [p.register_post_accumulate_grad_hook(self._made) for p in parameters]

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Wait for the averaged gradients, then step. A closure is evaluated first, its gradients are averaged."""
        loss = evaluate(closure)
        self.synchronize()
        self.optimizer.step()
        return loss

    def synchronize(self) -> None:
        """Wait until every gradient is the mean over all ranks. Does nothing the second time."""
        if self._next or any(bucket.gradients for bucket in self.buckets):
            try:
                self._start(len(self.buckets))
            finally:
                self._next = 0
                self._wait()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which backward only accumulates."""
        before, self._enabled = self._enabled, False
        try:
            yield
        finally:
            self._enabled = before

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sent."""
        return sum(bucket.bytes_sent for bucket in self.buckets)

    def remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def state_dict(self) -> dict[str, Any]:
        """What this rank has to remember; every rank saves its own."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "calls": self.comm._calls,
            "buckets": [bucket.state_dict() for bucket in self.buckets],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.comm._calls = state["calls"]
        for bucket, saved in zip(self.buckets, state["buckets"]):
            bucket.load_state_dict(saved)

    def _made(self, parameter: torch.Tensor) -> None:
        """Called by autograd when a gradient is there."""
        if self._enabled:
            self._bucket_of[id(parameter)].put(parameter, _gradient(parameter))
            ready = self._next
            while ready < len(self.buckets) and self.buckets[ready].complete:
                ready += 1
            self._start(ready)

    def _start(self, end: int) -> None:
        while self._next < end:
            bucket = self.buckets[self._next]
            for parameter in bucket.parameters:
                bucket.put(parameter, _gradient(parameter))
            bucket.start(self.comm, self.comm._calls)
            self.comm._calls += 1
            self._next += 1

    def _wait(self) -> None:
        """For all buckets, whatever becomes of one; the first error is raised."""
        errors = []
        for bucket in self.buckets:
            try:
                bucket.wait()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _gradient(parameter: torch.Tensor) -> torch.Tensor:
    """A parameter's gradient, dense in memory; zero if there is none."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    view = dense(parameter.grad)
    if view is None:
        parameter.grad = view = parameter.grad.contiguous()
    return view
