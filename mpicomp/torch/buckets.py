"""Gradients in buckets: groups of tensors of one type and codec that travel as one collective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional, Sequence

import torch

from .. import progress
from ..arrays import flatten, kind_of
from ..codecs import Raw
from ..collectives.many import FusedCall, rule_of
from ..engine import Run, wait
from ..errors import BufferError
from ..fusion import Fused
from ..ports.mpi import port_of
from ..settings import Settings
from .tensors import to_arrays, to_tensors

MOST, FIRST = 25 << 20, 1 << 20  # bytes of a bucket and of the first one, as torch's DistributedDataParallel
Choose = Callable[[str, torch.Tensor], Settings]


class Bucket:
    """Parameters whose gradients are averaged together, in place."""

    def __init__(self, parameters: Sequence[torch.Tensor], settings: Settings):
        self.parameters = list(parameters)
        self.settings = settings
        self.gradients: dict[int, torch.Tensor] = {}  # those that were made, by the identity of their parameter
        self.memory: Any = None  # of feedback, from the first start on
        self.saved: Any = None  # what that memory is to be
        self.run: Optional[Run] = None
        self.bytes_sent = 0

    @property
    def complete(self) -> bool:
        return len(self.gradients) == len(self.parameters)

    def put(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        if self.run is not None:
            raise RuntimeError(
                "a gradient was made again while it is being averaged: call step() after each backward(), "
                "zero_grad() after one that ended with an error, and let backward() accumulate within no_sync()"
            )
        self.gradients[id(parameter)] = gradient

    def start(self, comm: Any, call: int, finish: Optional[Callable[[Optional[BaseException]], None]] = None) -> None:
        """Begin to average; it proceeds by itself. `call` numbers the collectives of `comm`, for the random numbers."""
        port = port_of(comm)
        try:
            planned = self._plan(port, self.settings)
            if planned.plan.algorithm == "raw":  # MPI's own cannot be waited for by the progress thread; the same can
                planned = self._plan(port, self.settings.override("raw", "direct"))
            self._remember(planned.memory)
        except Exception as error:
            port.fail(error)
            raise
        self.gradients = {}
        self.bytes_sent += planned.plan.wire_bytes
        self.run = planned.start(self.settings.seed, call, finish)
        progress.watch(self.run)

    def wait(self) -> None:
        self.gradients = {}
        if self.run is not None:
            run, self.run = self.run, None
            wait(run)

    def state_dict(self) -> Any:
        """What feedback remembers; None if nothing yet."""
        return self.saved if self.memory is None else to_tensors(self.memory.state_dict())

    def load_state_dict(self, state: Any) -> None:
        self.memory, self.saved = None, state

    def _remember(self, memory: Any) -> None:
        if self.saved is not None and memory is not None:
            memory.load_state_dict(to_arrays(self.saved))
        if memory is not None and memory is not self.memory:
            memory.settle()
        self.memory, self.saved = memory, None

    def _plan(self, port: Any, settings: Settings) -> FusedCall:
        flats = []
        for parameter in self.parameters:
            flat = flatten(self.gradients[id(parameter)], "a gradient")
            if flat is None:
                raise BufferError(f"a gradient of {parameter.dtype} cannot be averaged")
            flats.append(flat)
        whole = Fused(flats, settings.grain, settings.packs)
        return FusedCall(port, settings, whole, whole, True, self.memory)


def check_saved(buckets: Sequence[Bucket], saved: Any, number: int) -> None:
    """Raise if these states are not those of so many buckets, of which some are known."""
    if not isinstance(saved, (list, tuple)) or len(saved) != number:
        found = f"{len(saved)}" if isinstance(saved, (list, tuple)) else f"a {type(saved).__name__}"
        raise ValueError(f"this state is of another optimizer: it has {found} for {number} buckets")
    for bucket, state in zip(buckets, saved):
        if state is not None and not bucket.settings.feedback:
            raise ValueError("this state is of an optimizer with feedback: this one has none")


def chooser(settings: Settings, codec: Any, algorithm: Optional[str], feedback: Any, named: bool) -> Choose:
    """How a parameter's gradient travels: as `codec` says, which may be a rule; exactly if that cannot carry its type."""

    if isinstance(codec, Mapping) and not named and any(c.isalpha() for pattern in codec for c in pattern):
        raise ValueError(f"codec has patterns for names ({', '.join(map(repr, codec))}): give named_parameters")
    rule = rule_of(codec, settings.codec)

    def choose(name: str, parameter: torch.Tensor) -> Settings:
        chosen = settings.override(rule(name, parameter, tuple(parameter.shape)), algorithm, feedback=feedback)
        kind = kind_of(parameter.dtype)
        able = kind in chosen.codec.kinds and kind in chosen.down.kinds
        if not able or (isinstance(chosen.codec, Raw) and isinstance(chosen.down, Raw)):
            return chosen.override("raw", feedback=False)  # nothing is lost that could be remembered
        return chosen

    return choose


def fill(parameters: Sequence[torch.Tensor], names: dict[int, str], choose: Choose, most: int) -> list[Bucket]:
    """Buckets of about `most` bytes, each of one type and codec, in the reverse order of the parameters.

    That is about the order in which backward makes gradients. The first one is small, so that sending starts early.
    """
    buckets: list[Bucket] = []
    filling: dict[Any, list[torch.Tensor]] = {}
    for parameter in reversed(parameters):
        key = (parameter.dtype, choose(names[id(parameter)], parameter))
        group = filling.setdefault(key, [])
        group.append(parameter)
        if sum(p.numel() * p.element_size() for p in group) >= (most if buckets else min(most, FIRST)):
            buckets.append(Bucket(filling.pop(key), key[1]))
    return buckets + [Bucket(group, key[1]) for key, group in filling.items()]


def named(parameters: Sequence[torch.Tensor], given: Any) -> dict[int, str]:
    """The name of each parameter: as given by pairs of a name and a parameter, else its number."""
    names = {id(p): str(index) for index, p in enumerate(parameters)}
    return {**names, **{id(p): name for name, p in given or ()}}
