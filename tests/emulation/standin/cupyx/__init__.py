"""Pinned memory, which copies between host and device use later than they are asked for."""

from __future__ import annotations

import cupy
import numpy as np


def empty_pinned(shape, dtype=float):
    array = np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, cupy.POISON, np.uint8)
    cupy.PINNED[id(array)] = array
    return array.view(dtype).reshape(shape)
