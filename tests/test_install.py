"""Installing: sdist, wheel and an empty environment; and a machine without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import launch
import pytest

LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "*.egg-info", "*.so", "__pycache__", ".*_cache")
TARGET = ("install", "--no-build-isolation", "--no-deps", "--target")
QUIET = ("--disable-pip-version-check", "-qq")


def run(*command: object, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    result = launch.limited(list(map(str, command)), 300, {**environment, **variables}, Path("/"))
    assert result.returncode == 0, launch.describe(result)
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy to build in, since building leaves things behind."""
    folder = tmp_path_factory.mktemp("source") / "mpicomp"
    shutil.copytree(launch.ROOT, folder, ignore=LEFT_OUT)
    return folder


def test_sdist_to_wheel_to_an_empty_environment(source, tmp_path):
    run(sys.executable, "-m", "build", "--no-isolation", "-o", tmp_path, source, CFLAGS="-O0")  # in a fifth of the time
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("mpicomp-") and "-py3-none-" in wheel.name
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    for needed in (
        "mpicomp/libmpicomp.so",
        "mpicomp/libshortcut.so",
        "mpicomp/py.typed",
        "mpicomp/kernels/natural.h",
        "mpicomp/kernels/cpu/loops.h",
    ):
        assert needed in names
    assert not [name for name in names if name.startswith(("tests/", "kernels/", "benchmarks/"))]
    assert wheel.stat().st_size < 1_000_000

    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    bin = tmp_path / "venv" / "bin"
    run(bin / "pip", *QUIET, "install", "--prefer-binary", "--no-compile", f"mpicomp[mpich] @ {wheel.as_uri()}")
    assert "CPU kernels" in run(bin / "mpicomp", "info")
    code = "import mpicomp; from mpicomp import launch; print(launch.describe(), mpicomp.__file__)"
    shown = run(bin / "python", "-W", "error", "-c", code)
    assert shown.startswith("C, ") and str(tmp_path) in shown
    shown = run(bin / "mpiexec", "-n", "2", bin / "mpicomp", "demo", "--sizes", "1MB", "--runs", "1")
    assert shown.strip().endswith("every rank has the same bits")


def test_without_a_compiler_it_installs_and_says_once_that_it_is_slow(source, tmp_path):
    run(sys.executable, "-m", "pip", *QUIET, *TARGET, tmp_path, source, CC="false")
    assert not list(tmp_path.rglob("*.so"))
    code = (
        "import numpy as np, mpicomp\n"
        "x = np.ldexp(np.float32(1), np.arange(-50, 50))\n"
        "codec = mpicomp.codec('natural')\n"
        "for _ in range(3): assert (codec.decode(codec.encode(x), like=x) == x).all()\n"
        "print('right', mpicomp.__file__)\n"
    )
    shown = run(sys.executable, "-W", "always", "-c", code, PYTHONPATH=str(tmp_path))
    assert f"right {tmp_path}" in shown
    assert shown.count("RuntimeWarning") == 1
    assert "without its C library" in shown and "install a C compiler" in shown
