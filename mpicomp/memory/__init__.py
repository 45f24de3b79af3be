"""WHAT A PERSISTENT COLLECTIVE REMEMBERS from one start to the next. One idea a file; arrays and counters only, no MPI."""

from __future__ import annotations

from typing import Any

from ..codecs.base import Codec
from ..codecs.lowrank import LowRank
from .ef21 import EF21
from .factors import Factors
from .feedback import ErrorFeedback
from .fused import FusedMemory

FEEDBACKS = {memory.name: memory for memory in (ErrorFeedback, EF21)}


def remember(codec: Codec, feedback: str, x: Any) -> Any:
    """A new memory for the array, or the fused arrays, x of an allreduce; None if there is nothing to remember."""
    if isinstance(codec, LowRank):
        return Factors(x, codec, bool(feedback))
    if not feedback:
        return None
    make = FEEDBACKS[feedback]
    if hasattr(x, "flats"):
        return FusedMemory([make(flat.n, flat.kind, flat.data) for flat in x.flats])
    return make(x.n, x.kind, x.data)
