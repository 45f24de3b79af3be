"""The scripts in slurm/ start what they say. Stand-ins for the programs print their arguments."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slurm

SCRIPTS = sorted((Path(__file__).resolve().parents[2] / "slurm").glob("*.sbatch"))
STAND_IN = """
import sys
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 0: print(f"ran {sys.argv[1:]} on {MPI.COMM_WORLD.size} ranks")
"""
ON_GPU = """
import os
from mpi4py import MPI
def test_ranks(): assert MPI.COMM_WORLD.size == 2 and os.environ["MPICOMP_TEST_ARRAYS"] == "cupy"
"""


def stand_in_for_mpicomp(workplace) -> None:
    workplace.write("mpicomp/__init__.py", "")  # a package, or the real one would be found first
    workplace.write("mpicomp/__main__.py", STAND_IN)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_ranks_are_checked_before_the_work(script):
    lines = script.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if '"${launch[@]}" python' in line)
    assert "source slurm/launch.sh" in lines[:start]


def test_the_sizes_of_a_benchmark_are_shared_out_over_an_array(workplace, srun):
    stand_in_for_mpicomp(workplace)
    array = workplace.submit("slurm/allreduce_bench.sbatch", "--codec", "natural", LAUNCH=srun)
    from_to = [("1K", "64K"), ("64K", "1M"), ("1M", "64M")]
    for task, (smallest, largest) in enumerate(from_to):
        output = type(array)(f"{array.id}_{task}").succeed()
        arguments = ["bench", "allreduce", "-b", smallest, "-e", largest, "--codec", "natural"]
        assert f"ran {arguments} on 4 ranks" in output


def test_tuning_runs_on_all_ranks(workplace, launcher):
    stand_in_for_mpicomp(workplace)
    output = workplace.submit("slurm/tune.sbatch", LAUNCH=launcher).succeed()
    assert "ran ['tune'] on 4 ranks" in output


def test_decentralized_training_gets_a_torus_and_a_checkpoint(workplace, srun):
    workplace.write("examples/train_decentralized.py", STAND_IN)
    job = workplace.submit("slurm/train_decentralized.sbatch", "--lr", "0.1", LAUNCH=srun)
    output = job.succeed()
    checkpoint = str(workplace.folder / f"train-decentralized-{job.id}.checkpoint")
    assert f"ran {['--topology', 'torus', '--checkpoint', checkpoint, '--lr', '0.1']} on 4 ranks" in output


def test_a_gpu_job_without_a_gpu_says_so(workplace, srun):
    job = workplace.submit("slurm/gpu.sbatch", options=("--gpus-per-node=0",), LAUNCH=srun, PATH="/usr/bin:/bin")
    assert job.finish() == "FAILED"
    assert "no GPU on h1; ask for one" in job.output


def test_a_gpu_job_goes_on_with_the_mpi_of_an_environment(workplace, launcher):
    for program in ("bin/nvidia-smi", "bin/make", ".venv/bin/python"):
        workplace.write(program, '#!/bin/sh\necho "${0##*/} $*"\n')
        (workplace.folder / program).chmod(0o755)
    workplace.write("venv/bin/activate", "")  # the Python of this test stays in use
    workplace.write("tests/mpi/test_ranks.py", ON_GPU)
    path = f"{workplace.folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    job = workplace.submit("slurm/gpu.sbatch", options=("--gpus-per-node=0",), LAUNCH=launcher, VENV="venv", PATH=path)
    output = job.succeed()
    assert "make test-gpu CUDA=13" in output and "bench codecs --device cuda" in output
    assert output.count("1 passed") == 2
