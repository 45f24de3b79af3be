"""mpicomp itself in a job: on several nodes, with several ranks on each."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slurm

SCRIPT = """#!/bin/bash
set -euo pipefail
source slurm/launch.sh
"${launch[@]}" python program.py
"""
PROGRAM = """
import numpy as np
from mpi4py import MPI
import mpicomp

world = MPI.COMM_WORLD
comm = mpicomp.Comm(world, "natural")
x = np.random.default_rng(world.rank).standard_normal(100_001, dtype=np.float32)
exact, out = np.empty_like(x), np.empty_like(x)
world.Allreduce(x, exact)
for algorithm in ("auto", "direct", "ring", "hierarchical"):
    comm.Allreduce(x, out, algorithm=algorithm)
    same = len(set(world.allgather(out.tobytes()))) == 1
    error = float(np.linalg.norm(out - exact) / np.linalg.norm(exact))
    if world.rank == 0:
        print(f"{algorithm}: same bits {same}, error below 1: {error < 1}, sent compressed: {error > 0}", flush=True)
"""


@pytest.mark.parametrize("nodes, per_node", [(4, 1), (2, 2)])
def test_every_rank_of_a_job_gets_the_same_bits(workplace, launcher, nodes, per_node):
    workplace.write("job", SCRIPT)
    workplace.write("program.py", PROGRAM)
    options = (f"--nodes={nodes}", f"--ntasks-per-node={per_node}")
    output = workplace.submit("job", options=options, LAUNCH=launcher).succeed()
    for algorithm in ("direct", "ring", "hierarchical"):
        assert f"{algorithm}: same bits True, error below 1: True, sent compressed: True" in output
    assert "auto: same bits True, error below 1: True" in output


def test_tuning_leaves_a_file_that_later_jobs_can_use(workplace, srun):
    workplace.submit("slurm/tune.sbatch", "-b", "1K", "-e", "4K", "-n", "1", LAUNCH=srun).succeed()
    assert json.loads((workplace.folder / "mpicomp-tuning.json").read_text())
