"""The serial suite. What needs mpirun is in tests/mpi, which test_mpi.py starts."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys

import pytest
from common import levels, use_level

from mpicomp import launch

collect_ignore = ["emulation", "mpi", "slurm"]  # each is started by name, with a launcher
gc.disable()  # while modules are loaded, torch among them, and tests found: what that makes stays
FIRST = ("test_mpi.py",)  # long ones: with -n 2 a worker begins with them, and the rest fills what they leave

for name in [name for name in os.environ if name.startswith("MPICOMP_")]:
    if name not in ("MPICOMP_CPU", "MPICOMP_NUM_THREADS") and not name.startswith("MPICOMP_TEST_"):
        del os.environ[name]  # settings of whoever starts the suite are not what it tests


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs CuPy and a GPU")


def pytest_generate_tests(metafunc):
    if "compiled" in metafunc.fixturenames:
        metafunc.parametrize("compiled", levels(), indirect=True)


@pytest.fixture
def compiled(request, monkeypatch):
    """A function that gives kernels in C of one level, each level in turn; AVX2 writes large arrays through the caches,
    the others past them."""
    use_level(monkeypatch, request.param)
    written = ctypes.c_int.in_dll(launch._library(), "mc_through_caches")
    monkeypatch.setattr(written, "value", int(request.param == "v3"))
    return launch.kernel


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in FIRST)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not gpu_found():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no GPU, or no CuPy (pip install 'mpicomp[cuda13]')"))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def gpu_found():
    """In a process of its own: tests here must not find CuPy loaded."""
    code = "import cupy; cupy.zeros(1).sum().item()"
    return not subprocess.run([sys.executable, "-c", code], capture_output=True).returncode
