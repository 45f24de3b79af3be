"""NVIDIA's compiler for CUDA C++ as a library, which needs neither a GPU nor a driver: pip install nvidia-cuda-nvrtc."""

from __future__ import annotations

import ctypes
import importlib.util
import pickle
from functools import cache
from pathlib import Path

from kept import kept

# What cupy.RawModule adds to mpicomp's own options; the last of contradictory ones counts.
CUPY = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space")


@cache
def library(major: str = "") -> ctypes.CDLL | None:
    """The newest NVRTC that pip installed, or that of CUDA 12 for major="12"; None if there is none."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    found = [path for folder in folders for path in folder.glob(f"*/lib/libnvrtc.so.{major or '*'}")]
    return ctypes.CDLL(str(max(found, key=lambda path: path.suffix))) if found else None


def compile(source: str, architecture: str, *options: str, major: str = "") -> tuple[str, bytes, str]:
    """(PTX, machine code, what the assembler says), for architectures like sm_80. RuntimeError with the compiler's words."""
    given = (f"-arch={architecture}", *options, "--ptxas-options=-v", *CUPY)
    compiler = Path(library(major)._name)  # type: ignore[union-attr]
    made_of = source, *given, str(compiler), str(compiler.stat().st_mtime_ns)
    made = kept(".nvrtc", *made_of, make=lambda path: path.write_bytes(pickle.dumps(_compile(source, given, major))))
    return pickle.loads(made.read_bytes())


def _compile(source: str, options: tuple[str, ...], major: str) -> tuple[str, bytes, str]:
    nvrtc = library(major)
    assert nvrtc is not None
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*map(str.encode, options))
    )

    def get(what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    log = get("ProgramLog").rstrip(b"\0").decode()
    if status:
        raise RuntimeError(log)
    result = get("PTX").rstrip(b"\0").decode(), get("CUBIN"), log
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return result
