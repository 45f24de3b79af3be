"""Jobs of a Slurm that tests/slurm/run has started. Without it nothing here is collected."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPEN_MPI = {  # as root; and over libfabric, see benchmarks/netlab/launch.py
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "cm",
    "OMPI_MCA_mtl": "ofi",
    "OMPI_MCA_opal_common_ofi_provider_include": "tcp",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def _ours() -> bool:
    conf = Path(os.environ.get("SLURM_CONF", "/nonexistent"))
    return conf.exists() and "ClusterName=mpicomp-slurm" in conf.read_text()


collect_ignore_glob = [] if _ours() else ["test_*.py"]


def pytest_configure(config):
    config.addinivalue_line("markers", "slurm: needs the Slurm of tests/slurm/run")


@dataclass
class Job:
    """A job, or one task of an array: Job("7") or Job("7_2")."""

    id: str

    def __getitem__(self, field: str) -> str:
        """A field of scontrol's description: JobState, ExitCode, Restarts, StdOut, ..."""
        shown = subprocess.run(
            ["scontrol", "show", "job", self.id, "-o"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        return re.search(rf"\b{field}=(\S*)", shown)[1]

    @property
    def output(self) -> str:
        path = Path(self["StdOut"])
        return path.read_text() if path.exists() else ""

    def wait_until(self, condition, seconds: float = 90) -> None:
        """Poll: sbatch --wait looks only every few seconds. The limit is there for jobs that hang."""
        stop = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < stop, f"{self['JobState']} {self['Reason']}\n{self.output}"
            time.sleep(0.1)

    def finish(self) -> str:
        """Wait for the end; the final state."""
        active = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "PREEMPTED", "SUSPENDED")
        self.wait_until(lambda: self["JobState"] not in active)
        return self["JobState"]

    def succeed(self) -> str:
        """Wait for a good end; what the job printed."""
        assert self.finish() == "COMPLETED", self.output
        return self.output


class Workplace:
    """A folder to submit from, with the project's slurm/ and whatever programs a test puts there."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "slurm").symlink_to(ROOT / "slurm")

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def submit(self, script: str, *arguments: str, options: tuple[str, ...] = (), **env: str) -> Job:
        own_python = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sbatch", "--parsable", "--time=5", *options, script, *arguments],
            cwd=self.folder,
            env={**os.environ, "PATH": own_python, "PYTHONPATH": str(ROOT), **OPEN_MPI, **env},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return Job(done.stdout.strip())


@pytest.fixture
def workplace(tmp_path):
    yield Workplace(tmp_path)
    subprocess.run(["scancel", "--user=root"], check=True)  # what a failed test has left


def _kind_of_mpi() -> str:
    sys.path.insert(0, str(ROOT))
    from benchmarks.netlab import launch

    return launch.find(sys.executable)[1]


GOOD_LAUNCHERS = {
    "mpich": ["srun --mpi=pmi2", "mpiexec"],
    "openmpi": ["srun --mpi=pmix", "mpirun --bind-to none"],
}
WRONG_LAUNCHER = {"mpich": "srun --mpi=none", "openmpi": "srun --mpi=pmi2"}


def pytest_generate_tests(metafunc):
    if "launcher" in metafunc.fixturenames:
        metafunc.parametrize("launcher", GOOD_LAUNCHERS[_kind_of_mpi()])


@pytest.fixture
def srun():
    return GOOD_LAUNCHERS[_kind_of_mpi()][0]


@pytest.fixture
def wrong_launcher():
    return WRONG_LAUNCHER[_kind_of_mpi()]
