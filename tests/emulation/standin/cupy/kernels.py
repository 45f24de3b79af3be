"""Kernels from their source: run by shim.py or, with MPICOMP_TEST_KERNELS=ptx, compiled by NVRTC and run by ptx.py."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent))

import shim  # noqa: E402

TYPES = {"P": "uint64", "q": "int64 uint64", "i": "int32 uint32", "f": "float32", "d": "float64"}
ORDER = int(os.environ.get("MPICOMP_TEST_ORDER", 0))  # of the threads of a block


@cache
def load(code, options):
    if os.environ.get("MPICOMP_TEST_KERNELS") == "ptx":
        import ptx

        return ptx.Module(code, options)
    return ShimModule(code, options)


class ShimModule:
    def __init__(self, code, options):
        self.library = shim.module(code, options)

    def kernel(self, name):
        return ShimKernel(self.library, name)


class ShimKernel:
    def __init__(self, library, name):
        self.library, self.name = library, name
        self.letters = shim.letters(library, name)

    def check(self, values):
        check(self.name, values, self.letters)

    def run(self, blocks, threads, values, memory):
        given = [
            getattr(ctypes, f"c_{value.dtype.name.replace('float32', 'float').replace('float64', 'double')}")(
                value.item()
            )
            for value in values
        ]
        shim.launch(self.library, self.name, blocks, threads, given, ORDER)


def check(name, values, letters):
    if len(values) != len(letters):
        raise TypeError(f"{name} takes {len(letters)} arguments, not {len(values)}")
    for place, (value, letter) in enumerate(zip(values, letters)):
        if value.dtype.name not in TYPES[letter].split():
            raise TypeError(f"{name}: argument {place} is {value.dtype}, not {TYPES[letter]}")
