"""Kernels by name: the C library at the best level that this processor has, or the NumPy reference; CUDA for CuPy arrays.

`kernel("natural_encode_f32")(x, n, wire, key, first, offset, nearest)` takes NumPy arrays where C takes
pointers, releases the GIL and gives the same bytes at every level. A call costs a few microseconds.

MPICOMP_CPU=v4|v3|v1|reference chooses the level, when a kernel is first asked for; MPICOMP_NUM_THREADS (1) is how many threads `parallel` uses.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from . import reference
from .arrays import host_address, is_cupy
from .checks import number

LIBRARY = Path(__file__).with_name("libmpicomp.so")
LEVELS = (4, 3, 1)
LEAST = 1 << 18  # elements that make a thread worth its start: 1 MB of float32

# The arguments of each kernel, in order. What a name stands for in C is said below.
ARGUMENTS = {
    "encode": "x n wire key first offset nearest",
    "decode": "wire n out",
    "add": "wire n acc weight",
    "reduce": "wires p position own n scale wire key first offset nearest",
    "scale_add": "x n acc weight",
    "round": "acc n out",
    "lift": "x n acc",
    "multiply": "acc n weight",  # and divide: on GPUs alone
    "divide": "acc n weight",
    "select": "x n block k values pace tail stride key first",
    "scatter": "values pace tail stride n block k out",
    "accumulate": "values pace tail stride n block k acc weight",
    "project": "x n cols right left pace rank",
    "back": "x n cols stride left right pace rank",
    "expand": "left pace right rank n cols out",
    "orthonormalize": "left n rank",
}
BYTES = {"wire": 1, "wires": 1, "values": 1, "tail": 1}  # arrays of bytes
WHOLE = ("x", "own", "out", "acc")  # arrays of n values; no length of others is known here
STATUS = ("scatter", "accumulate")  # verbs that return 0, or another number if the bytes are no wire
TAILS = {  # what a codec's kernels take after these
    "dithering": "bits norm blocksize flags",
    "sign": "blocksize",
    "grid": "step bits",
}
SCALARS = {
    "n": ctypes.c_int64,
    "block": ctypes.c_int64,
    "k": ctypes.c_int64,
    "cols": ctypes.c_int64,
    "rank": ctypes.c_int64,
    "pace": ctypes.c_int64,
    "stride": ctypes.c_int64,
    "p": ctypes.c_int32,
    "position": ctypes.c_int32,
    "nearest": ctypes.c_int32,
    "key": ctypes.c_uint64,
    "first": ctypes.c_uint64,
    "offset": ctypes.c_uint32,
    "bits": ctypes.c_int32,
    "norm": ctypes.c_int32,
    "blocksize": ctypes.c_int32,
    "flags": ctypes.c_int32,
    "step": ctypes.c_double,
}
STORED = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}  # bytes of x, own and out; acc has 4, or 8 for f64


def kernel(name: str, like: Any = None) -> Callable[..., Any]:
    """The kernel `name` for arrays like `like` (NumPy if not given)."""
    if is_cupy(like):
        from . import device

        return device.kernel(name, like.device)
    return host_kernel(name)


@cache  # the variable too: a look at it takes longer than the rest of a call where Python is out of the caches
def host_kernel(name: str) -> Callable[..., Any]:
    wanted = os.environ.get("MPICOMP_CPU", "")
    if wanted not in ("", "reference", *(f"v{level}" for level in LEVELS)):
        raise ValueError(f"MPICOMP_CPU is {wanted!r}; possible: v4, v3, v1, reference")
    library = None if wanted == "reference" else _library()
    if library is None:
        return reference.find(name)
    best = library.mc_cpu_level()
    if wanted and int(wanted[1:]) > best:
        raise ValueError(f"MPICOMP_CPU is {wanted!r}, but this processor goes up to v{best}")
    for level in [int(wanted[1:])] if wanted else [level for level in LEVELS if level <= best]:
        function = getattr(library, f"mc_{name}__v{level}", None)
        if function is not None:
            return _call(function, name)
    return reference.find(name)


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        warnings.warn(
            f"mpicomp runs without its C library ({error}) and is much slower; "
            "install a C compiler and mpicomp again (in a clone: python setup.py build_ext --inplace)",
            RuntimeWarning,
            stacklevel=5,
        )
        return None


def signature(codec: str, verb: str, kind: str) -> tuple[list[str], dict[str, int], Any]:
    """(the names of a kernel's arguments, the item sizes of those that are arrays, the type of a weight or scale)."""
    names = ARGUMENTS[verb].split() + TAILS.get(codec, "").split()
    stored, total = STORED[kind], 8 if kind == "f64" else 4
    sizes = {"x": stored, "own": stored, "out": stored, "acc": total, "left": total, "right": total, **BYTES}
    return names, sizes, ctypes.c_double if kind == "f64" else ctypes.c_float


def _call(function: Any, name: str) -> Callable[..., Any]:
    """`function` with arrays for pointers, each checked for its item size, length and contiguity."""
    verb, kind = name.rsplit("_", 1)
    codec, verb = ("", verb) if verb in ARGUMENTS else verb.split("_", 1)
    names, sizes, real = signature(codec, verb, kind)
    function.restype = ctypes.c_int32 if verb in STATUS else None
    function.argtypes = [ctypes.c_void_p if each in sizes else SCALARS.get(each, real) for each in names]
    arrays = [(i, each, sizes[each]) for i, each in enumerate(names) if each in sizes]
    length = names.index("n")

    def call(*args: Any) -> Any:
        given, n = list(args), args[length]
        for i, each, size in arrays:
            if each == "wires":
                given[i] = _addresses(args[i])
            elif args[i] is not None:
                given[i] = _address(args[i], each, size, n if each in WHOLE else 0)
        return function(*given)

    call.__name__ = name
    call.bare = function  # type: ignore[attr-defined]
    return call


def in_a_row(name: str, calls: list[tuple[Any, ...]]) -> None:
    """Calls a C kernel with each of these arguments, addresses for arrays, with nothing in between: each call would find Python's
    own memory out of the caches that the one before filled, which takes as long as the kernel needs for some 100 KB."""
    function = host_kernel(name).bare  # type: ignore[attr-defined]
    for arguments in calls:
        function(*arguments)


def bare(name: str, like: Any) -> bool:
    """Whether in_a_row has this kernel for arrays like `like`, and no threads to use instead."""
    return not is_cupy(like) and threads() == 1 and hasattr(host_kernel(name), "bare")


def describe() -> str:
    """Which kernels are in use, for people."""
    wanted = os.environ.get("MPICOMP_CPU", "")
    library = None if wanted == "reference" else _library()
    if library is None:
        return "NumPy reference (slow)"
    level = int(wanted[1:]) if wanted else library.mc_cpu_level()
    return {4: "C, AVX-512", 3: "C, AVX2", 1: "C, portable"}[level]


def _address(array: np.ndarray, name: str, itemsize: int, least: int) -> int:
    check(array, name, itemsize, least)
    return host_address(array)


def check(array: Any, name: str, itemsize: int, least: int) -> None:
    """An array can stand for a pointer to `least` items, or this raises TypeError."""
    if array.itemsize != itemsize or array.size < least or not array.flags.c_contiguous:
        raise TypeError(
            f"{name}: needs a contiguous array of {itemsize}-byte items, {least} or more; "
            f"got {array.dtype} {array.shape} with strides {array.strides}"
        )


def _addresses(wires: Sequence[np.ndarray]) -> Any:
    return (ctypes.c_void_p * len(wires))(*(_address(wire, "wires", 1, 0) for wire in wires))


def threads() -> int:
    """How many threads `parallel` may use: MPICOMP_NUM_THREADS, or 1."""
    return max(1, number("MPICOMP_NUM_THREADS", 1))


def pieces(n: int, grain: int, like: Any = None) -> Iterator[tuple[int, int]]:
    """Ranges that make up 0..n, cut at multiples of `grain`, of as much as `parallel` has threads for. One on a GPU."""
    step = n if is_cupy(like) else -(-threads() * LEAST // grain) * grain
    return ((lo, min(lo + step, n)) for lo in range(0, n, step or 1))


def parallel(part: Callable[[int, int], Any], n: int, grain: int, like: Any = None) -> None:
    """Calls part(lo, hi) on ranges that make up 0..n, cut at multiples of `grain`; in threads if n is large.

    Once for arrays on a GPU, which `like` tells: it has threads of its own, and a thread here would have another stream.

    The first exception of a part, in order of the ranges, is raised when all have ended.
    """
    workers = min(threads(), n // LEAST) if n >= 2 * LEAST and not is_cupy(like) else 1
    if workers <= 1:
        part(0, n)
        return
    step = -(-n // (workers * grain)) * grain
    pool = _pool(threads() - 1, os.getpid())
    others = [pool.submit(part, lo, min(lo + step, n)) for lo in range(step, n, step)]
    try:
        part(0, step)
    finally:
        errors = [other.exception() for other in others]
    for error in errors:
        if error is not None:
            raise error


@lru_cache(maxsize=1)
def _pool(workers: int, pid: int) -> ThreadPoolExecutor:
    """The pool of process `pid`: a fork has its parent's memory, but none of its threads."""
    return ThreadPoolExecutor(workers, thread_name_prefix="mpicomp")
