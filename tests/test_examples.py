"""The examples run, and a training that was interrupted ends as one that was not."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import launch
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")


def last_row(output: str) -> list[str]:
    """Step, loss, quality and bytes of the last evaluation."""
    return [line for line in output.splitlines() if line.split()[:1] and line.split()[0].isdigit()][-1].split()[:4]


def test_a_sum_with_several_codecs(tmp_path):
    plot = tmp_path / "codecs.png"
    output = launch.mpirun(
        2, "examples/allreduce_numpy.py", "--megabytes", "0.1", "--plot", str(plot), "raw", "natural"
    )
    assert "natural" in output and plot.exists()


def test_a_progress_bar_where_mpirun_writes_to_a_terminal():
    """Its ranks write to pipes."""
    terminal, end = pty.openpty()
    command = [
        str(launch.LIBRARIES["mpich"][0] / "bin" / "mpiexec"),
        "-n",
        "2",
        sys.executable,
        "examples/allreduce_numpy.py",
        "--megabytes",
        "0.1",
        "raw",
        "bf16",
    ]
    subprocess.run(command, cwd=launch.ROOT, stdout=subprocess.DEVNULL, stderr=end, timeout=60, check=True)
    assert b"[=====" in os.read(terminal, 4096)


def test_a_codec_of_ones_own():
    assert "bytes:block=64" in launch.mpirun(2, "examples/custom_codec.py")


def test_training_examples_run_and_a_resumed_training_ends_as_one_without_interruption(tmp_path):
    """In one launch what can be: ranks spend most of their time on importing torch."""

    def ddp(steps, checkpoint):
        return ["examples/train_ddp.py", "--steps", str(steps), "--checkpoint", str(tmp_path / checkpoint)]

    _, decentralized, optimizer = in_one_launch(
        ddp(5, "interrupted"),
        ["examples/train_decentralized.py", "--steps", "5"],
        ["examples/train_optimizer.py", "--task", "text", "--steps", "5", "--clip", "1.0", "--exact", "*norm*"],
    )
    assert last_row(decentralized)[0] == "5"
    assert "times less than uncompressed" in optimizer
    (tmp_path / "broken").write_text("x")
    broken = ["examples/train_optimizer.py", "--steps", "5", "--checkpoint", str(tmp_path / "broken")]
    whole, resumed, refused = in_one_launch(ddp(10, "whole"), ddp(10, "interrupted"), broken)
    assert "going on from step 5" in resumed
    assert last_row(resumed) == last_row(whole)
    assert "ended: " in refused and "no checkpoint" in refused  # on all ranks, none of which waits


IN_TURN = """
import gc, json, runpy, sys
from mpi4py import MPI
gc.disable()  # a fifth of what importing torch takes
sys.path[0] = "examples"
for sys.argv in json.loads(sys.argv[1]):
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as error:
        print(f"ended: {error}", flush=True)
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 0:
        print("--- end", flush=True)
"""


def in_one_launch(*commands: list[str]) -> list[str]:
    """What each of these scripts prints."""
    return launch.mpirun(2, "-c", IN_TURN, json.dumps(commands), limit=300).split("--- end\n")[:-1]
