"""Spack's recipe. Sources come from the clone that holds it: what is committed on its branch main."""

# ruff: noqa: F403, F405
from contextlib import suppress
from pathlib import Path

from spack.package import *

with suppress(ImportError):  # Spack 1; before it, spack.package has PythonPackage
    from spack_repo.builtin.build_systems.python import PythonPackage


class PyMpicomp(PythonPackage):
    """MPI collectives that travel compressed, for NumPy, CuPy and torch arrays."""

    git = f"file://{Path(__file__).resolve().parents[5]}"

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("cuda", default=False, description="Arrays on NVIDIA GPUs, through CuPy")
    variant("torch", default=False, description="Hooks and optimizers for PyTorch")

    depends_on("c", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-setuptools@61:", type="build")
    depends_on("py-wheel", type="build")
    depends_on("py-numpy@1.22:", type=("build", "run"))
    depends_on("py-mpi4py@4:", type=("build", "run"))
    depends_on("py-cupy", type=("build", "run"), when="+cuda")
    depends_on("py-torch", type=("build", "run"), when="+torch")

    import_modules = ["mpicomp"]
