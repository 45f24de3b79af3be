"""mpicomp info: what is installed and what would be used."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import metadata

from .. import __version__, launch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank:
        return
    rows = {
        "mpicomp": __version__,
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "mpi4py": _version("mpi4py"),
        "MPI library": MPI.Get_library_version().splitlines()[0].strip(),
        "MPI standard": ".".join(map(str, MPI.Get_version())),
        "MPI threads": _threads(MPI),
        "ranks": str(MPI.COMM_WORLD.size),
        "NumPy": _version("numpy"),
        "torch": _version("torch"),
        "CPU kernels": launch.describe(),
        "threads of a kernel": os.environ.get("MPICOMP_NUM_THREADS", "1"),
        "CUDA": _cuda(),
    }
    rows.update({name: value for name, value in sorted(os.environ.items()) if name.startswith("MPICOMP_")})
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")
    sys.stdout.flush()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _threads(MPI: object) -> str:
    names = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    level = MPI.Query_thread()  # type: ignore[attr-defined]
    return next(name for name in names if getattr(MPI, f"THREAD_{name}") == level)


def _cuda() -> str:
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed (pip install 'mpicomp[cuda13]' for GPU arrays)"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        names = ", ".join(cupy.cuda.runtime.getDeviceProperties(d)["name"].decode() for d in range(count))
        return f"CuPy {cupy.__version__}, {count} device(s): {names}"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy {cupy.__version__}, no device ({error})"
