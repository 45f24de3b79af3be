"""Ranks must find each other, and a job whose ranks do not must fail."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slurm

SCRIPT = """#!/bin/bash
set -euo pipefail
source slurm/launch.sh
"${launch[@]}" python program.py
"""
FOUR = ("--nodes=4", "--ntasks-per-node=1")


@pytest.mark.parametrize("nodes, per_node", [(1, 1), (4, 1), (2, 2)])
def test_every_task_of_an_allocation_becomes_a_rank(workplace, launcher, nodes, per_node):
    workplace.write("job", SCRIPT)
    workplace.write("program.py", "from mpi4py import MPI; print(f'size {MPI.COMM_WORLD.allreduce(1)}\\n', end='')")
    options = (f"--nodes={nodes}", f"--ntasks-per-node={per_node}")
    output = workplace.submit("job", options=options, LAUNCH=launcher).succeed()
    assert f"{nodes * per_node} ranks on {nodes} nodes" in output
    assert output.count(f"size {nodes * per_node}") == nodes * per_node


def test_ranks_that_are_alone_stop_the_job_and_say_what_to_do(workplace, wrong_launcher):
    workplace.write("job", SCRIPT)
    workplace.write("program.py", "print('worked')")
    job = workplace.submit("job", options=FOUR, LAUNCH=wrong_launcher)
    assert job.finish() == "FAILED"
    assert job["ExitCode"] == "1:0"
    assert job.output.count("Slurm gave 4 tasks, but MPI has 1 rank") == 1
    assert "Try LAUNCH='srun --mpi=pmi" in job.output
    assert "worked" not in job.output


def test_a_launcher_that_leaves_nodes_out_stops_the_job(workplace, srun):
    workplace.write("job", SCRIPT)
    workplace.write("program.py", "print('worked')")
    job = workplace.submit("job", options=FOUR, LAUNCH=f"{srun} -n 2 -N 2")
    assert job.finish() == "FAILED"
    assert "Slurm gave 4 tasks, but MPI has 2 ranks" in job.output
    assert "worked" not in job.output


ENDS_WITH_7 = """
import sys, time
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
MPI.Finalize()
time.sleep(rank)  # Open MPI's mpirun waits for ever, now and then, where the ranks of several nodes fail at the same moment
sys.exit(7)
"""


def test_the_exit_code_of_the_program_is_that_of_the_job(workplace, launcher):
    workplace.write("job", SCRIPT)
    workplace.write("program.py", ENDS_WITH_7)
    job = workplace.submit("job", options=FOUR, LAUNCH=launcher)
    assert job.finish() == "FAILED"
    assert job["ExitCode"] == "7:0"
