"""Kernels from their source: run by shim.py or, with MPICOMP_TEST_KERNELS=ptx, compiled by NVRTC and run by ptx.py.

With MPICOMP_TEST_KERNELS=c the C kernels stand for them, a hundred times as fast: for tests of the host code.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent))

import numpy as np  # noqa: E402
import shim  # noqa: E402

TYPES = {"P": ("uint64",), "q": ("int64", "uint64"), "i": ("int32", "uint32"), "f": ("float32",), "d": ("float64",)}
DTYPES = {letter: tuple(map(np.dtype, names)) for letter, names in TYPES.items()}
CTYPES = {letter: np.ctypeslib.as_ctypes_type(dtypes[0]) for letter, dtypes in DTYPES.items()}
ORDER = int(os.environ.get("MPICOMP_TEST_ORDER", 0))  # of the threads of a block


@cache
def load(code, options):
    if os.environ.get("MPICOMP_TEST_KERNELS") == "ptx":
        import ptx

        return ptx.Module(code, options)
    if os.environ.get("MPICOMP_TEST_KERNELS") == "c":
        return CModule(code)
    return ShimModule(code)


class ShimModule:
    def __init__(self, code):
        self.library = shim.module(code)

    def kernel(self, name):
        return ShimKernel(self.library, name)


class ShimKernel:
    def __init__(self, library, name):
        self.library, self.name = library, name
        self.letters = shim.letters(library, name)

    def check(self, values):
        check(self.name, values, self.letters)

    def run(self, blocks, threads, values, memory):
        given = [CTYPES[letter](value.item()) for letter, value in zip(self.letters, values)]
        shim.launch(self.library, self.name, blocks, threads, given, ORDER)


def check(name, values, letters):
    if len(values) != len(letters):
        raise TypeError(f"{name} takes {len(letters)} arguments, not {len(values)}")
    for place, (value, letter) in enumerate(zip(values, letters)):
        if value.dtype not in DTYPES[letter]:
            raise TypeError(f"{name}: argument {place} is {value.dtype}, not {' or '.join(TYPES[letter])}")


class CModule:
    """The C kernels of the same names; for the few that only GPUs have, those of the source."""

    def __init__(self, code):
        self.code = code

    def kernel(self, name):
        from mpicomp import launch

        if name.split("_")[1] in ("multiply", "divide"):
            return ShimModule(self.code).kernel(name)
        return CKernel(launch, name)


class CKernel:
    def __init__(self, launch, name):
        self.name = name
        verb, kind = name.removeprefix("mc_").rsplit("_", 1)
        codec, verb = ("", verb) if verb in launch.ARGUMENTS else verb.split("_", 1)
        names, sizes, real = launch.signature(codec, verb, kind)
        types = [ctypes.c_uint64 if each in sizes else launch.SCALARS.get(each, real) for each in names]
        self.letters = "".join("P" if each in sizes else LETTERS[type] for each, type in zip(names, types))
        self.status = verb in launch.STATUS
        self.function = getattr(launch._library(), f"{name}__v1")
        self.function.argtypes = types
        self.function.restype = ctypes.c_int32 if self.status else None

    def check(self, values):
        check(self.name, values, self.letters + "P" * self.status)

    def run(self, blocks, threads, values, memory):
        given = [value.item() for value in values]
        if self.status:
            ctypes.c_uint32.from_address(given.pop()).value = self.function(*given)
        else:
            self.function(*given)


LETTERS = {
    ctypes.c_int64: "q",
    ctypes.c_uint64: "q",
    ctypes.c_int32: "i",
    ctypes.c_uint32: "i",
    ctypes.c_float: "f",
    ctypes.c_double: "d",
}
