"""Kernels run by shim.h: compiled once by g++, and called with addresses and numbers."""

from __future__ import annotations

import ctypes
import re
import subprocess
from functools import cache
from pathlib import Path

from kept import kept

HEADER = Path(__file__).with_name("shim.h")
FLAGS = (
    "-std=c++17",
    "-O0",  # what is compiled runs for a second or two: less than optimising it would take
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    "-w",
)
_COMPILER = ("g++", "-x", "c++")


@cache
def module(source: str) -> ctypes.PyDLL:
    """The library of a .cu text, with its kernels of every kind: most of a compiler's time goes into what they share.

    PyDLL keeps other threads out, since what runs kernels has one set of fibers.
    """
    made_of = source, HEADER.read_text(), *FLAGS, _run(["g++", "--version"])
    return ctypes.PyDLL(str(kept(".so", *made_of, make=lambda path: _compile(source, path))))


def _compile(source: str, library: Path) -> None:
    text = f'#include "{HEADER}"\n{source}\n'
    expanded = _run([*_COMPILER, "-E", "-P", "-D__global__=THE_KERNEL", "-"], text)
    names = re.findall(r"THE_KERNEL void (\w+)\s*\(", expanded)
    text += "".join(f"SHIM_EXPORT({name})\n" for name in names)
    _run([*_COMPILER, *FLAGS, "-o", str(library), "-"], text)


def _run(command: list[str], text: str = "") -> str:
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr[:4000])
    return result.stdout


def letters(library: ctypes.PyDLL, name: str) -> str:
    """The types of a kernel's arguments."""
    function = getattr(library, f"letters_{name}")
    function.restype = ctypes.c_char_p
    return function().decode()


def launch(library: ctypes.PyDLL, name: str, grid: int, block: int, values: list, order: int = 0) -> None:
    """Run a kernel; values are ctypes objects of the arguments' types."""
    function = getattr(library, f"launch_{name}")
    function.restype = ctypes.c_char_p
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    problem = function(ctypes.c_uint(grid), ctypes.c_uint(block), pointers, ctypes.c_uint(order))
    if problem:
        raise RuntimeError(f"{name}: {problem.decode()}")
