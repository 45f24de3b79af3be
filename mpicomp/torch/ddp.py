"""A communication hook for torch's DistributedDataParallel, in torch's own form (state, hook)."""

# Annotations stay objects here: torch compares the hook's with the types that it expects.

from typing import Any, Iterable, Optional

import torch
from mpi4py import MPI
from torch.distributed import GradBucket

from .. import engine, progress
from ..checks import whole
from ..collectives.base import telling
from ..functional import compressed
from ..memory.state import check_names
from ..ports.mpi import port_of
from .buckets import MOST, Bucket, check_saved, chooser, fill
from .tensors import check_dense, dense


class HookState:
    """What the hook knows and remembers: a communicator with one rank for each of the model's processes, and a codec.

    What travels together is decided in the first backward, about `bucket_bytes` at a time, and stays so however DDP
    rebuilds its own buckets: what is remembered of a gradient stays in its place, and a resumed training makes the same
    bits as one that was never interrupted. One state serves one model.

    `codec` may be a rule, as in Comm.Allreduce: a mapping from patterns of names, which needs `named_parameters` of the
    module that DDP wraps. feedback=True, or "ef21", sends later what compression left out, as codecs need that are
    biased (topk, sign). `bytes_sent` counts.
    """

    def __init__(
        self,
        comm: Optional[MPI.Comm] = None,
        codec: Any = None,
        feedback: Any = False,
        algorithm: Optional[str] = None,
        named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]] = None,
        bucket_bytes: int = MOST,
    ):
        self.comm = compressed(comm)
        self.buckets: list[Bucket] = []
        self._bucket_of: dict[int, int] = {}
        self._futures: dict[int, Any] = {}
        self._names = {id(parameter): name for name, parameter in named_parameters or ()}
        self._choose = chooser(self.comm._settings, codec, algorithm, feedback, named_parameters is not None)
        self._most = bucket_bytes
        self._saved: list[Any] = []  # for buckets that are not known yet
        self._first = 0  # the number of this iteration's first collective

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sent."""
        return sum(bucket.bytes_sent for bucket in self.buckets)

    def state_dict(self) -> dict[str, Any]:
        """What this rank remembers; every rank saves its own."""
        return {"calls": self.comm._calls, "buckets": [bucket.state_dict() for bucket in self.buckets] or self._saved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave, for the same model and settings."""
        check_names(state, ("calls", "buckets"), "hook")
        saved = state["buckets"]
        check_saved(self.buckets, saved, len(self.buckets) if self.buckets and saved else len(saved))
        self.comm._calls, self._saved = whole("calls", state["calls"], least=0), saved
        for index, bucket in enumerate(self.buckets):
            bucket.load_state_dict(saved[index] if saved else None)

    # What the hook does

    def _begin(self) -> None:
        """A new iteration: forget what an interrupted one left."""
        self._first = self.comm._calls
        self._futures = {}
        for bucket in self.buckets:
            bucket.gradients, bucket.run = {}, None

    def _meet(self, parameters: list[torch.Tensor]) -> None:
        """Parameters that were never seen form buckets."""
        new = [p for p in parameters if id(p) not in self._bucket_of]
        names = {id(p): self._names.get(id(p), str(len(self._bucket_of) + k)) for k, p in enumerate(new)}
        for bucket in fill(new, names, self._choose, self._most):
            index = len(self.buckets)
            self._bucket_of.update(dict.fromkeys(map(id, bucket.parameters), index))
            self.buckets.append(bucket)
            if index < len(self._saved):
                bucket.load_state_dict(self._saved[index])

    def _put(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.futures.Future:
        """Take a gradient, start its bucket if that is complete now; a future for the bucket: its error or None."""
        index = self._bucket_of[id(parameter)]
        future = self._futures.setdefault(index, torch.futures.Future())
        bucket = self.buckets[index]
        bucket.put(parameter, gradient)
        if bucket.complete:
            self.comm._calls += 1
            bucket.start(self.comm, self._first + index, future.set_result)
            if bucket.run is not None and not progress.running():
                engine.wait(bucket.run)
        return future


def ddp_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over all ranks; the future holds the same buffer."""
    buffer = bucket.buffer()
    if buffer.layout is not torch.strided:
        with telling(port_of(state.comm)):
            check_dense(buffer)
    if bucket.index() == 0:
        state._begin()
    state._meet(bucket.parameters())
    futures = {}
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
        future = state._put(parameter, _in_memory(gradient, buffer))
        futures[id(future)] = future

    def result(done: Any) -> torch.Tensor:
        for each in done.value():
            error = each.value()
            if error is not None:
                raise error
        return buffer

    return torch.futures.collect_all(list(futures.values())).then(result)


def _in_memory(gradient: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """The gradient in the order of DDP's flat buffer, of which it is a part."""
    view = dense(gradient)
    start = gradient.storage_offset() - buffer.storage_offset()
    return buffer[start : start + gradient.numel()] if view is None else view
