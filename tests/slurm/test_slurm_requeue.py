"""A training job survives its time limit and preemption, and goes on where it was."""

from __future__ import annotations

import re
import subprocess

import pytest

pytestmark = pytest.mark.slurm

STEPS = 40
TRAINING = f"""
import os, sys, time
from pathlib import Path
from mpi4py import MPI
comm = MPI.COMM_WORLD
checkpoint = Path(sys.argv[sys.argv.index("--checkpoint") + 1])
start = comm.bcast(int(checkpoint.read_text()) if checkpoint.exists() else 0)
for step in range(start, {STEPS}):
    time.sleep(0.1)
    assert comm.allreduce(1) == comm.size
    if comm.rank == 0:
        print("step", step, flush=True)
        checkpoint.with_suffix(".new").write_text(str(step + 1))
        os.replace(checkpoint.with_suffix(".new"), checkpoint)
"""


@pytest.fixture
def training(workplace, srun):
    """A training job that has done a few steps."""
    workplace.write("examples/train_ddp.py", TRAINING)
    job = workplace.submit("slurm/train_ddp.sbatch", LAUNCH=srun)
    job.wait_until(lambda: "step 5\n" in job.output)
    return job


def assert_went_on(output: str) -> None:
    """Every step was done, in two parts, of which the second began where the first ended."""
    parts = output.split("start 1 of")
    first, second = ([int(step) for step in re.findall(r"step (\d+)", part)] for part in parts)
    assert first == list(range(len(first)))
    assert second[0] in (
        len(first) - 1,
        len(first),
    )  # the last step may have ended between print and checkpoint
    assert second == list(range(second[0], STEPS))


def test_before_its_time_is_up_a_job_goes_back_into_the_queue_and_goes_on(training):
    subprocess.run(["scancel", "--signal=USR1", "--batch", training.id], check=True)  # what --signal=B:USR1 does
    output = training.succeed()
    assert "back into the queue" in output
    assert training["Restarts"] == "1"
    assert_went_on(output)


def test_a_preempted_job_goes_on_after_the_urgent_one(training, workplace):
    workplace.write("urgent", "#!/bin/bash\nsleep 1\n")
    urgent = workplace.submit("urgent", options=("--partition=urgent", "--nodes=4", "--exclusive"))
    assert urgent.finish() == "COMPLETED"
    assert_went_on(training.succeed())
    assert training["Restarts"] == "1"


def test_a_cancelled_job_stays_cancelled(training):
    subprocess.run(["scancel", training.id], check=True)
    assert training.finish() == "CANCELLED"
    assert training["Restarts"] == "0"
