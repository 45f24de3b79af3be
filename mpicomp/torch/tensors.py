"""Tensors as memory, and what is remembered of them as tensors."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from ..arrays import is_cupy
from ..errors import BufferError


def dense(x: torch.Tensor) -> Optional[torch.Tensor]:
    """x, or a permuted view of it that is contiguous (as of channels-last weights); None if x has gaps."""
    if x.is_contiguous():
        return x
    view = x.permute(sorted(range(x.dim()), key=lambda d: -x.stride(d)))
    return view if view.is_contiguous() else None


def check_dense(gradient: torch.Tensor) -> None:
    """Raise if a gradient is a sparse tensor."""
    if gradient.layout is not torch.strided:
        raise BufferError("a sparse gradient cannot be averaged: make the layer with sparse=False")


def to_tensors(state: Any) -> Any:
    """The arrays in nested dicts and lists as tensors, which torch.save keeps and torch.load takes safely."""
    if isinstance(state, dict):
        return {key: to_tensors(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [to_tensors(value) for value in state]
    if is_cupy(state):
        return torch.from_dlpack(state)
    return torch.from_numpy(state) if isinstance(state, np.ndarray) else state


def to_arrays(state: Any) -> Any:
    """The other way round."""
    if isinstance(state, dict):
        return {key: to_arrays(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [to_arrays(value) for value in state]
    return state.cpu().numpy() if isinstance(state, torch.Tensor) else state
