"""Starts programs under mpiexec, of any MPI that has an environment here, and never waits for ever.

Each MPI lives in a virtual environment of its own at the top of the clone (see Makefile). A launch has a limit in
seconds: then its own process group is ended, and what the ranks had to say is in the error.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
OPENMPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
LIBRARIES = {  # folder, variables for its mpiexec
    "mpich": (Path(sys.prefix), {}),
    "openmpi": (ROOT / ".venv-openmpi", OPENMPI),
    "impi": (ROOT / ".venv-impi", {"I_MPI_FABRICS": "shm", "I_MPI_PIN": "0", "I_MPI_THREAD_YIELD": "2"}),
}


def available(library: str) -> bool:
    return (LIBRARIES[library][0] / "bin" / "mpiexec").exists()


def python(library: str = "mpich") -> str:
    return str(LIBRARIES[library][0] / "bin" / "python")


def mpirun(n: int, *arguments: str, library: str = "mpich", limit: float = 60, **variables: str) -> str:
    """What `mpiexec -n N python ARGUMENTS` prints. Raises AssertionError with all output if it fails or hangs."""
    result = run(n, *arguments, library=library, limit=limit, **variables)
    assert result.returncode == 0, describe(result)
    return result.stdout


def run(
    n: int, *arguments: str, library: str = "mpich", limit: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """As mpirun, whatever the exit status is. Ranks find in MPICOMP_TEST_LOGS a folder for their output."""
    folder, extra = LIBRARIES[library]
    with tempfile.TemporaryDirectory() as logs:
        environment = {
            **os.environ,
            **extra,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "MPICOMP_TEST_LOGS": logs,
            **(napping() if n > 1 else {}),
        }
        environment.update(variables)
        command = [str(folder / "bin" / "mpiexec"), "-n", str(n), python(library), *arguments]
        result = limited(command, limit, environment)
        if result.returncode:
            for log in sorted(Path(logs).iterdir()):
                result.stdout += f"\n--- {log.stem} ---\n{log.read_text()}"
        return result


@functools.cache
def napping() -> dict[str, str]:
    """Variables for ranks that wait for one another, which takes up to half of their time off; none without a compiler."""
    library = ROOT / "build" / "tests" / "nap.so"
    source = Path(__file__).with_name("nap.c")
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        fresh = library.with_name(f"nap.{os.getpid()}.so")
        compiler = os.environ.get("CC", "cc").split()
        try:
            subprocess.run([*compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(fresh)], check=True)
        except (OSError, subprocess.CalledProcessError):
            return {}
        os.replace(fresh, library)
    return {"LD_PRELOAD": str(library)}


def limited(
    command: list[str], limit: float, environment: dict[str, str], folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """subprocess.run in a process group of its own, which is ended at the limit."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        out, err = _end(process)
        return subprocess.CompletedProcess(command, 124, out, f"{err}\nended after {limit:g} seconds")
    except BaseException:
        _end(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, sign)
        try:
            return process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    return "", ""


def describe(result: subprocess.CompletedProcess[str]) -> str:
    return f"{' '.join(result.args)}: exit {result.returncode}\n{result.stdout}\n{result.stderr}"
