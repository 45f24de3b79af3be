"""A communication hook for torch's DistributedDataParallel, in torch's own form (state, hook)."""

# Annotations stay objects here: torch compares the hook's with the types that it expects.

from typing import Any, Optional

import torch
from mpi4py import MPI
from torch.distributed import GradBucket

from .. import engine, progress
from ..arrays import flatten
from ..errors import BufferError
from ..functional import compressed
from .buckets import start_mean


class HookState:
    """What the hook knows: a communicator with one rank for each of the model's processes, and a codec."""

    def __init__(
        self,
        comm: Optional[MPI.Comm] = None,
        codec: Any = None,
        feedback: Any = False,
        algorithm: Optional[str] = None,
    ):
        self.comm = compressed(comm)
        self.settings = self.comm._settings.override(codec, algorithm)
        self.feedback = feedback

    def state_dict(self) -> dict[str, Any]:
        return {"calls": self.comm._calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.comm._calls = state["calls"]


def ddp_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over all ranks; the future holds the same buffer."""
    buffer = bucket.buffer()
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    flat = flatten(buffer, "bucket")
    if flat is None:
        raise BufferError(f"a bucket of {buffer.dtype} cannot be averaged")

    def finish(error: Optional[BaseException]) -> None:
        if error is None:
            future.set_result(buffer)
        else:
            future.set_exception(error)  # type: ignore[arg-type]

    run = start_mean(state.comm, [flat], state.settings, finish)
    if not progress.running():
        engine.wait(run)
    return future
