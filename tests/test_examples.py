"""The examples run, and a training that was interrupted ends as one that was not."""

from __future__ import annotations

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


def test_decentralized_training():
    assert last_row(launch.mpirun(2, "examples/train_decentralized.py", "--steps", "5", limit=150))[0] == "5"


def test_a_resumed_training_ends_as_one_without_interruption(tmp_path):
    def run(steps, checkpoint):
        arguments = ["examples/train_ddp.py", "--steps", str(steps), "--checkpoint", str(tmp_path / checkpoint)]
        return launch.mpirun(2, *arguments, limit=150)

    run(5, "interrupted")
    resumed = run(10, "interrupted")
    assert "going on from step 5" in resumed
    assert last_row(resumed) == last_row(run(10, "whole"))


def test_the_text_task_with_exact_norms_and_clipping():
    arguments = ["--task", "text", "--steps", "5", "--clip", "1.0", "--exact", "*norm*"]
    output = launch.mpirun(2, "examples/train_optimizer.py", *arguments, limit=150)
    assert "times less than uncompressed" in output
