"""The kernel tests with a C library that was built with AddressSanitizer and UndefinedBehaviorSanitizer: make sanitize

The build lives in a copy of the sources under build/sanitize, so that the library in use is left alone. The first fault ends the run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
NEEDED = ("mpicomp", "kernels", "tests", "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("*.so", "__pycache__")
KERNELS = ["kernels", "sparse_kernels", "lowrank_kernels", "dithering", "sign", "natural_rounding", "wire_format"]
SANITIZERS = "address,undefined"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",  # Python keeps what it has to the end
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "PYTHONMALLOC": "malloc",
}


def build(folder: Path) -> None:
    """A copy of the sources with the library built in place."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in NEEDED:
        source = ROOT / name
        shutil.copytree(source, folder / name, ignore=LEFT_OUT) if source.is_dir() else shutil.copy(source, folder)
    flags = {"MPICOMP_SANITIZE": SANITIZERS, "CFLAGS": "-O1 -fno-sanitize-recover=all"}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, env={**os.environ, **flags}, check=True, stdout=subprocess.DEVNULL)
    assert (folder / "mpicomp" / "libmpicomp.so").exists(), "the library was not built"


def main() -> int:
    """pytest's exit status."""
    folder = ROOT / "build" / "sanitize"
    build(folder)
    compiler = os.environ.get("CC", "cc").split()
    runtime = subprocess.check_output([*compiler, "-print-file-name=libasan.so"], text=True).strip()
    tests = [f"tests/test_{name}.py" for name in KERNELS]
    command = ["env", f"LD_PRELOAD={runtime}", sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *tests], cwd=folder, env={**os.environ, **OPTIONS}).returncode


if __name__ == "__main__":
    sys.exit(main())
