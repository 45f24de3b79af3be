"""mpicomp info: what is installed and what would be used."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import metadata
from importlib.util import find_spec

import numpy as np

from .. import __version__, launch
from .timing import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--codecs", action="store_true", help="a table of all codecs, their speed measured now")


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    from ..ports.cuda_aware import cuda_aware

    if MPI.COMM_WORLD.rank:
        return
    if arguments.codecs:
        return _codecs()
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
        "zstandard": _version("zstandard"),
        "CPU kernels": launch.describe(),
        "threads of a kernel": os.environ.get("MPICOMP_NUM_THREADS", "1"),
        "CUDA": _cuda(),
        "CUDA-aware MPI": "yes" if cuda_aware() else "no: arrays of a GPU pass through the host, compressed",
    }
    rows.update({name: value for name, value in sorted(os.environ.items()) if name.startswith("MPICOMP_")})
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")
    sys.stdout.flush()


def _codecs() -> None:
    """Settings are the defaults; speed is that of 16 MB of float32, as a ratio to memcpy of them."""
    from ..codecs import codec
    from ..codecs.base import REGISTRY
    from .bench.codecs import measure

    heads = {"codec": 18, "bits": 6, "omega": 8, "": 8, "encode": 8, "decode": 8}
    table = Table(heads)
    x = np.random.default_rng(0).standard_normal(4 << 20, dtype=np.float32)
    out = np.ones_like(x)
    ours = sorted(name for name, each in REGISTRY.items() if each.__module__.startswith("mpicomp."))
    for name in [*ours, *(["natural|zstd"] if find_spec("zstandard") else [])]:
        table.doing(name)
        each = codec(name)
        cells = [name, "-", f"{each.omega(x.size):.3g}", "unbiased" if each.unbiased else "biased", "-", "-"]
        if name != "lowrank":
            found = measure(each, x, out, 5)
            cells[1], cells[4:] = f"{found['bits']:.3g}", [f"{found['encode']:.2f}x", f"{found['decode']:.2f}x"]
        table.doing()
        table.line(*cells)
    print(
        "\nbits a value of float32; omega bounds E|C(x) - x|^2 / |x|^2; times as fast as memcpy of the values, 16 MB,"
    )
    print(
        "one thread. lowrank sends two thin factors of a matrix instead of values, see docs/codecs.md. |zstd may follow any"
    )
    print("other codec (pip install 'mpicomp[zstd]'): its bits are those of normal values.")


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
