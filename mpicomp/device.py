"""CUDA kernels by name, compiled by CuPy on first use and launched on its current stream.

They have the names and arguments of the C kernels and give the same bits. Sources are one text each, with their headers
in place, since CuPy's cache of compiled code does not look into headers. A launch costs some ten microseconds.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np

from . import launch
from .arrays import cupy_module

FILES = ("basic", "natural8", "natural", "dithering", "sign", "grid", "sparse", "lowrank")
FILE_OF = {"topk": "sparse", "randk": "sparse", "": "basic"}


def folder() -> Path:
    """Where kernels/ is: in the package or, in a clone, beside it."""
    inside = Path(__file__).with_name("kernels")
    return inside if inside.is_dir() else Path(__file__).parent.parent / "kernels"


@cache
def source(name: str) -> str:
    """kernels/cuda/<name>.cu with every header in place of its first #include."""
    seen: set[Path] = set()

    def text(path: Path) -> str:
        if path in seen:
            return ""
        seen.add(path)

        def included(match: Any) -> str:
            header = (path.parent / match[1]).resolve()
            return text(header) if header.exists() else match[0]

        return re.sub(r'^#include "(.+)"\n', included, path.read_text(), flags=re.M)

    return text((folder() / "cuda" / f"{name}.cu").resolve())


def kernel(name: str, device: Any = None) -> Callable[..., Any]:
    """The kernel `name` with CuPy arrays of a device (the current one) for pointers. Launched on the current stream; does
    not wait for it."""
    current = cupy_module().cuda.runtime.getDevice()
    if device is None or device.id == current:
        return _kernel(name, current)

    def call(*args: Any) -> int:
        with device:
            return _kernel(name, device.id)(*args)

    return call


@cache
def _kernel(name: str, device: int) -> Callable[..., int]:
    cupy = cupy_module()
    verb, kind = name.rsplit("_", 1)
    codec, verb = ("", verb) if verb in launch.ARGUMENTS else verb.split("_", 1)
    function = _module(FILE_OF.get(codec, codec), kind, device).get_function(f"mc_{name}")
    names, sizes, real = launch.signature(codec, verb, kind)
    types = [np.dtype(launch.SCALARS.get(each, real)).type for each in names]
    arrays = [(i, each, sizes[each]) for i, each in enumerate(names) if each in sizes]
    scalars = [i for i, each in enumerate(names) if each not in sizes]
    length = names.index("n")
    cap = 16 * cupy.cuda.Device(device).attributes["MultiProcessorCount"]

    def call(*args: Any) -> int:
        given, n = list(args), args[length]
        if n == 0:
            return 0
        for i, each, size in arrays:
            if each == "wires":
                given[i] = _pointers(cupy, args[i])
            elif args[i] is None:
                given[i] = np.uint64(0)
            else:
                launch.check(args[i], each, size, n if each in launch.WHOLE else 0)
        for i in scalars:
            given[i] = types[i](args[i])
        blocks, threads = _shape(codec, verb, dict(zip(names, args)))
        status = cupy.zeros(1, np.uint32) if verb in launch.STATUS else None
        function((min(blocks, cap),), (threads,), tuple(given) if status is None else (*given, status))
        return 0 if status is None else int(status.get()[0])  # waits for the stream

    call.__name__ = name
    return call


@cache
def _module(name: str, kind: str, device: int) -> Any:
    """One kind of a file's kernels. --fmad=false: a fused multiply-add rounds once, and sums would differ from the CPU's."""
    cupy = cupy_module()
    exact = "-ffp-contract=off" if cupy.cuda.runtime.is_hip else "--fmad=false"
    return cupy.RawModule(code=source(name), options=("-std=c++17", exact, f"-DMC_KIND={kind}"))


def _pointers(cupy: Any, wires: Sequence[Any]) -> Any:
    """Where the wires are, in the device's memory."""
    for wire in wires:
        launch.check(wire, "wires", 1, 0)
    return cupy.asarray(np.array([wire.data.ptr for wire in wires] or [0], np.uint64))


def _shape(codec: str, verb: str, given: dict[str, Any]) -> tuple[int, int]:
    """(blocks, threads of each) for a launch; kernels that get fewer blocks than they have work for go round again."""
    n = given["n"]
    if codec == "natural8" and verb in ("encode", "reduce"):
        return -(-n // 512), 128
    if "blocksize" in given and verb in ("encode", "reduce"):
        return -(-n // given["blocksize"]), min(256, max(32, -(-given["blocksize"] // 128) * 32))
    if "block" in given:
        return -(-n // given["block"]), 256
    if codec == "lowrank":
        return _lowrank_shape(verb, given)
    return -(-n // 1024), 256


def _lowrank_shape(verb: str, given: dict[str, Any]) -> tuple[int, int]:
    if verb == "project":  # a warp for each product
        return -(-given["n"] // given["cols"] * given["rank"] // 8), 256
    if verb == "back":  # a thread for each sum
        return -(-given["cols"] * given["rank"] // 128), 128
    return (1, 32) if verb == "orthonormalize" else (-(-given["n"] // 256), 256)
