"""DecentralizedOptimizer: local steps, and averaging of the parameters with the neighbours in a graph."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

import torch

from .. import functional, gossip, progress
from ..collectives.base import telling
from ..engine import Run, wait
from ..errors import BufferError
from ..memory.state import check_names
from .tensors import dense, to_arrays, to_tensors
from .wrapper import Wrapper, evaluate


class DecentralizedOptimizer(Wrapper):
    """Wraps an optimizer: `step` steps locally and averages the parameters with the neighbours, as `method` wants it.

    `topology` is a communicator with a graph (mpicomp.ring(comm), mpicomp.torus(comm), ...). `method` is a class of
    mpicomp.gossip or its name: "d-psgd", "dcd", "ecd", "choco", "deepsqueeze", "power-gossip"; settings (codec, rank, gamma,
    ...) go to it. Methods that average the parameters from before the local step (d-psgd, power-gossip) do it while
    backward runs. Every rank's model is its own; start all from the same parameters (broadcast_parameters). Momentum
    and buffers of the model, such as running means, stay local. `bytes_sent` counts.
    """

    _step_supports_amp_scaling = True  # see _local_step

    def __init__(self, optimizer: torch.optim.Optimizer, topology: Any, method: Any = "power-gossip", **settings: Any):
        super().__init__(optimizer)
        self.topology = topology
        self.gossip = gossip.find(method)(topology, self._memory(), **settings)
        self._before: list[torch.Tensor] = []  # the parameters from before the local step, and what they are mixed to
        self._mixed: list[torch.Tensor] = []
        self._run: Optional[Run] = None
        if not self.gossip.update_first:
            self._hook(self._begin)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """The local step and the averaging, in the method's own order."""
        loss = evaluate(closure)
        with telling(self.gossip._comm._port()):
            self._check_parameters()
        if self.gossip.update_first:
            before = [x.clone() for x in self._memory()]
            updates = self._local_step(before)
            for x, old in zip(self._memory(), before):
                x.copy_(old)
            self.gossip.step(self._memory(), updates)
        else:
            self._begin()
            updates = self._local_step(self._before)
            self._finish()
            for x, mixed, update in zip(self._memory(), self._mixed, updates):
                torch.add(mixed, update, out=x)
        return loss

    @contextmanager
    def average_model(self, module: Optional[torch.nn.Module] = None) -> Iterator[None]:
        """A context in which the parameters are the mean over all ranks, the same bits on each; local ones come back after.

        For evaluation and for saving the result. Given a module, its buffers of floating-point type are averaged too.
        """
        buffers = [] if module is None else [b for b in module.buffers() if b.is_floating_point()]
        own = [*self._memory(), *map(_memory, buffers)]
        kept = [x.clone() for x in own]
        try:
            for x in own:
                x.copy_(functional.allreduce(x, "mean", "raw", self.topology, algorithm="direct"))
            yield
        finally:
            for x, local in zip(own, kept):
                x.copy_(local)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sent."""
        return self.gossip.bytes_sent

    def state_dict(self) -> dict[str, Any]:
        """What this rank has to remember; every rank saves its own. Call it between steps, not after backward."""
        return {"optimizer": self.optimizer.state_dict(), "gossip": to_tensors(self.gossip.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._finish()
        check_names(state, ("optimizer", "gossip"), "optimizer")
        before = self.gossip.state_dict()
        self.gossip.load_state_dict(to_arrays(state["gossip"]))
        try:
            self.optimizer.load_state_dict(state["optimizer"])
        except Exception:
            self.gossip.load_state_dict(before)
            raise

    def _local_step(self, before: list[torch.Tensor]) -> list[torch.Tensor]:
        """What the inner optimizer changes: nothing, if a gradient scaler found that a gradient overflowed.

        Gradients are this rank's own. A scaler that did not call `step` for those of one rank would leave the others waiting
        for it, so it leaves unscaling and skipping to this: it says what it found in `grad_scale` and `found_inf`."""
        scale, overflowed = self.__dict__.get("grad_scale"), self.__dict__.get("found_inf")
        if scale is not None:
            for p in self._parameters:
                if p.grad is not None:
                    p.grad.div_(scale.to(p.grad.device))
        if overflowed is None or not overflowed.item():
            self.optimizer.step()
        return [x - old for x, old in zip(self._memory(), before)]

    def _memory(self) -> list[torch.Tensor]:
        return [_memory(p) for p in self._parameters]

    def _begin(self, parameter: Optional[torch.Tensor] = None) -> None:
        """Begin to average a copy of the parameters, if that is not under way."""
        if self._run is None:
            self._before = [x.clone() for x in self._memory()]
            self._mixed = [x.clone() for x in self._before]
            self._run = self.gossip.begin(self._mixed)
            progress.watch(self._run)

    def _finish(self) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            wait(run)


def _memory(parameter: torch.Tensor) -> torch.Tensor:
    view = dense(parameter.detach())
    if view is None:
        raise BufferError(
            f"a parameter of shape {tuple(parameter.shape)}, strides {parameter.stride()} has gaps in memory"
        )
    return view
