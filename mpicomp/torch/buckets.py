"""Gradients in buckets: groups of tensors of one type and codec that travel as one collective."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch

from .. import progress
from ..arrays import Flat, flatten
from ..collectives.many import FusedCall
from ..engine import Run, wait
from ..errors import BufferError
from ..fusion import Fused
from ..ports.mpi import port_of
from ..settings import Settings


class Bucket:
    """Parameters whose gradients are averaged together, in place."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], settings: Settings):
        self.parameters = list(parameters)
        self.settings = settings
        self.ready: set[int] = set()
        self.run: Optional[Run] = None

    def mark(self, parameter: torch.nn.Parameter) -> None:
        self.ready.add(id(parameter))

    @property
    def complete(self) -> bool:
        return len(self.ready) == len(self.parameters)

    def start(self, comm: Any) -> None:
        """Begin to average the gradients; one that backward did not make counts as zero."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.run = start_mean(comm, [flat_gradient(parameter) for parameter in self.parameters], self.settings)

    def wait(self) -> None:
        if self.run is not None:
            run, self.run = self.run, None
            wait(run)
        self.ready.clear()


def flat_gradient(parameter: torch.nn.Parameter) -> Flat:
    gradient = parameter.grad
    if gradient is not None and not gradient.is_contiguous():
        parameter.grad = gradient = gradient.contiguous()
    flat = flatten(gradient, "gradient")
    if flat is None:
        raise BufferError(f"a gradient of {parameter.dtype} cannot be averaged")
    return flat


def start_mean(
    comm: Any,
    flats: Sequence[Flat],
    settings: Settings,
    finish: Optional[Callable[[Optional[BaseException]], None]] = None,
) -> Run:
    """Begin the mean of these arrays over all ranks, in place, and let it proceed by itself."""
    port = port_of(comm)
    whole = Fused(flats, max(settings.codec.grain, settings.down.grain))
    call = FusedCall(port, settings, whole, whole, True)
    if call.plan.algorithm == "raw":  # MPI untouched cannot be waited for by the progress thread; the same, exact, can
        exact = settings.override("raw", "direct")
        call = FusedCall(port, exact, Fused(flats, exact.codec.grain), Fused(flats, exact.codec.grain), True)
    seed, number = comm._number(settings.seed, None)
    run = call.start(seed, number, finish)
    progress.watch(run)
    return run
