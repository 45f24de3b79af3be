"""Kernels run by shim.h: compiled once by g++, and called with addresses and numbers."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path

HEADER = Path(__file__).with_name("shim.h")
FLAGS = (
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    "-w",
)
KEPT = Path(__file__).parent.parent.parent / "build" / "emulation"


@cache
def module(source: str, options: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The library of a .cu text. Processes that want the same one wait for the first of them to make it."""
    defines = [option for option in options if option.startswith("-D")]
    name = hashlib.sha256("\0".join([source, HEADER.read_text(), *defines]).encode()).hexdigest()[:20]
    KEPT.mkdir(parents=True, exist_ok=True)
    library = KEPT / f"{name}.so"
    with open(KEPT / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _compile(source, defines, library)
    return ctypes.CDLL(str(library))


def _compile(source: str, defines: list[str], library: Path) -> None:
    text = f'#include "{HEADER}"\n{source}\n'
    expanded = _run([*_COMPILER, "-E", "-P", "-D__global__=THE_KERNEL", *defines, "-"], text)
    names = re.findall(r"THE_KERNEL void (\w+)\s*\(", expanded)
    text += "".join(f"SHIM_EXPORT({name})\n" for name in names)
    made = library.with_suffix(f".{os.getpid()}")
    _run([*_COMPILER, *FLAGS, *defines, "-o", str(made), "-"], text)
    made.rename(library)


_COMPILER = ("g++", "-x", "c++")


def _run(command: list[str], text: str) -> str:
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr[:4000])
    return result.stdout


def letters(library: ctypes.CDLL, name: str) -> str:
    """The types of a kernel's arguments."""
    function = getattr(library, f"letters_{name}")
    function.restype = ctypes.c_char_p
    return function().decode()


def launch(library: ctypes.CDLL, name: str, grid: int, block: int, values: list, order: int = 0) -> None:
    """Run a kernel; values are ctypes objects of the arguments' types."""
    function = getattr(library, f"launch_{name}")
    function.restype = ctypes.c_char_p
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    problem = function(ctypes.c_uint(grid), ctypes.c_uint(block), pointers, ctypes.c_uint(order))
    if problem:
        raise RuntimeError(f"{name}: {problem.decode()}")
