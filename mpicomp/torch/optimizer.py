"""DistributedOptimizer: an optimizer that averages gradients over all ranks, compressed, while backward runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Optional

import torch
from mpi4py import MPI

from ..checks import whole
from ..functional import compressed
from ..memory.state import check_names
from ..ports.mpi import existing_port
from .buckets import MOST, check_saved, chooser, fill, named
from .tensors import check_dense, dense
from .wrapper import Wrapper, evaluate


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
        choose = chooser(self.comm._settings, codec, algorithm, feedback, named_parameters is not None)
        self.buckets = fill(self._parameters, named(self._parameters, named_parameters), choose, bucket_bytes)
        self._next = 0  # the next bucket to be started
        self._enabled = True
        self._synchronized = False  # whether the gradients are the mean already
        self._in_backward = False
        self._bucket_of = {id(p): bucket for bucket in self.buckets for p in bucket.parameters}
        self._hook(self._made)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Wait for the averaged gradients, then step. A closure is evaluated first, its gradients are averaged."""
        loss = evaluate(closure)
        self.synchronize()
        self.optimizer.step()
        self._synchronized = False
        return loss

    def synchronize(self) -> None:
        """Wait until every gradient is the mean over all ranks, also those that backward did not make in this step.

        Every rank must, or step. Does nothing the second time."""
        if self._synchronized:
            return
        try:
            self._check_parameters()
        except Exception as error:
            self._drop(error)
            raise
        self._start(len(self.buckets))
        self._next, self._in_backward = 0, False
        self._wait()
        self._synchronized = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As the inner optimizer's. After a backward that ended with an error this ends what it had begun, on all ranks."""
        if self._in_backward:
            self._drop(RuntimeError("backward ended with an error on this rank"))
        elif self._next:
            self.synchronize()
        self._synchronized = False
        self.optimizer.zero_grad(set_to_none)

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

    def state_dict(self) -> dict[str, Any]:
        """What this rank has to remember; every rank saves its own."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "calls": self.comm._calls,
            "buckets": [bucket.state_dict() for bucket in self.buckets],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave, for the same parameters and settings."""
        check_names(state, ("optimizer", "calls", "buckets"), "optimizer")
        check_saved(self.buckets, state["buckets"], len(self.buckets))
        calls = whole("calls", state["calls"], least=0)
        self.optimizer.load_state_dict(state["optimizer"])
        self.comm._calls = calls
        for bucket, saved in zip(self.buckets, state["buckets"]):
            bucket.load_state_dict(saved)

    def _made(self, parameter: torch.Tensor) -> None:
        """Called by autograd when a gradient is there."""
        self._synchronized = False
        if self._enabled:
            if not self._in_backward:
                self._in_backward = True
                torch.autograd.Variable._execution_engine.queue_callback(self._backward_is_through)
            self._bucket_of[id(parameter)].put(parameter, _gradient(parameter))
            ready = self._next
            while ready < len(self.buckets) and self.buckets[ready].complete:
                ready += 1
            self._start(ready)

    def _backward_is_through(self) -> None:
        self._in_backward = False

    def _start(self, end: int) -> None:
        try:
            while self._next < end:
                bucket = self.buckets[self._next]
                for parameter in bucket.parameters:
                    bucket.put(parameter, _gradient(parameter))
                bucket.start(self.comm, self.comm._calls)
                self.comm._calls += 1
                self._next += 1
        except Exception as error:
            self._drop(error)
            raise

    def _drop(self, error: Exception) -> None:
        """Forget what is under way. The others are told; they wait for it.

        By the port that there is: one that has failed has told them, and to make another all ranks would be needed."""
        port = existing_port(self.comm)
        if port is not None:
            port.fail(error)
        self._next, self._in_backward = 0, False
        for bucket in self.buckets:
            bucket.gradients, bucket.run = {}, None

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
    check_dense(parameter.grad)
    view = dense(parameter.grad)
    if view is None:
        parameter.grad = view = parameter.grad.contiguous()
    return view
