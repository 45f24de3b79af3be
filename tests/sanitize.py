"""Tests with a C library that was built with the compiler's sanitizers: make sanitize

The kernel tests with AddressSanitizer and UndefinedBehaviorSanitizer, those of threads with ThreadSanitizer. The builds live
in copies of the sources under build/sanitize, so that the library in use is left alone. The first fault ends the run.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NEEDED = ("mpicomp", "kernels", "tests", "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("*.so", "__pycache__")


class Run(NamedTuple):
    sanitizers: str
    runtime: str  # the library that must be loaded first
    tests: list[str]
    options: dict[str, str]


RUNS = {
    "address": Run(
        "address,undefined",
        "libasan.so",
        ["kernels", "sparse_kernels", "lowrank_kernels", "dithering", "sign", "natural_rounding", "wire_format"],
        {
            "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",  # Python keeps what it has to the end
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        },
    ),
    # Python's locks are seen, its own memory is not: only what the kernels touch can be a race.
    "thread": Run("thread", "libtsan.so", ["threads"], {"TSAN_OPTIONS": "halt_on_error=1:exitcode=66"}),
}


def build(folder: Path, sanitizers: str) -> None:
    """A copy of the sources with the library built in place."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in NEEDED:
        source = ROOT / name
        shutil.copytree(source, folder / name, ignore=LEFT_OUT) if source.is_dir() else shutil.copy(source, folder)
    flags = {"MPICOMP_SANITIZE": sanitizers, "CFLAGS": "-O1 -fno-sanitize-recover=all"}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, env={**os.environ, **flags}, check=True, stdout=subprocess.DEVNULL)
    assert (folder / "mpicomp" / "libmpicomp.so").exists(), "the library was not built"


def main(*chosen: str) -> int:
    """pytest's exit status."""
    for name in chosen or RUNS:
        run, folder = RUNS[name], ROOT / "build" / "sanitize" / name
        build(folder, run.sanitizers)
        print(f"{run.sanitizers}:", flush=True)
        compiler = os.environ.get("CC", "cc").split()
        runtime = subprocess.check_output([*compiler, f"-print-file-name={run.runtime}"], text=True).strip()
        tests = [f"tests/test_{each}.py" for each in run.tests]
        # ThreadSanitizer knows where memory can be only if addresses are not drawn at random.
        fixed = ["setarch", platform.machine(), "--addr-no-randomize"] if name == "thread" else []
        command = [*fixed, "env", f"LD_PRELOAD={runtime}", sys.executable, "-m", "pytest", "-q", "-x", "--capture=sys"]
        environment = {**os.environ, **run.options, "PYTHONMALLOC": "malloc"}
        status = subprocess.run([*command, "-p", "no:cacheprovider", *tests], cwd=folder, env=environment).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
