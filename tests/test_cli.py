"""The command line, as people start it."""

from __future__ import annotations

import subprocess
import sys

import launch
import pytest

SCRIPT = """
import sys
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
x = np.full(200_000, 2.0 ** comm.rank, np.float32)
out = np.empty_like(x)
comm.Allreduce(x, out)
shown = getattr(comm, "codec", None), type(comm).__name__, sys.argv[1:], comm.plan(x).algorithm
if comm.rank == 0:
    print(*shown, float(np.abs(out - sum(2.0**r for r in range(comm.size))).max()) < comm.size)
if "fail" in sys.argv:
    if comm.rank == 1:
        raise ValueError("on purpose")
    comm.Barrier()
if "leave" in sys.argv:
    if comm.rank == 1:
        sys.exit(3)
    comm.Barrier()
"""


def mpicomp(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mpicomp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=launch.ROOT)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_info_shows_versions_mpi_kernels_and_cuda():
    shown = mpicomp("info").stdout
    for word in ("mpicomp", "Python", "mpi4py", "MPI library", "MPI threads", "NumPy", "torch", "CPU kernels", "CUDA"):
        assert any(line.startswith(word) for line in shown.splitlines()), word


def test_info_is_printed_by_one_rank_and_shows_variables():
    shown = launch.mpirun(2, "-m", "mpicomp", "info", MPICOMP_CODEC="bf16")
    assert shown.count("MPI library") == 1
    assert any(line.split() == ["ranks", "2"] for line in shown.splitlines())
    assert any(line.split() == ["MPICOMP_CODEC", "bf16"] for line in shown.splitlines())


def test_run_gives_an_unchanged_script_a_compressed_world(script):
    shown = launch.mpirun(2, "-m", "mpicomp", "run", "--codec", "natural:bits=8", str(script), "--size", "7")
    assert shown.startswith("natural:bits=8 Comm ['--size', '7']") and shown.strip().endswith("True")


def test_run_takes_algorithm_seed_and_variables(script):
    shown = launch.mpirun(
        2, "-m", "mpicomp", "run", "--algorithm", "direct", "--seed", "3", str(script), MPICOMP_CODEC="bf16"
    )
    assert shown.startswith("bf16 Comm [] direct")


def test_run_starts_modules(script):
    shown = launch.mpirun(
        2, "-m", "mpicomp", "run", "-m", "script", "word", PYTHONPATH=f"{script.parent}:{launch.ROOT}"
    )
    assert shown.startswith("natural Comm ['word']")


@pytest.mark.parametrize("library", ["mpich", "openmpi"])
def test_run_with_codec_raw_gives_a_world_that_is_mpi4pys(library):
    if not launch.available(library):
        pytest.skip(f"no environment with {library} (make test makes it)")
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "tests/mpi/test_conformance.py"]
    shown = launch.mpirun(2, "-m", "mpicomp", "run", "--codec", "raw", *suite, library=library, limit=120)
    assert " passed" in shown and "failed" not in shown


@pytest.mark.parametrize(
    "given, words",
    [
        (["--codec", "nope", "script.py"], "no codec named 'nope'"),
        (["--algorithm", "nope", "script.py"], "no algorithm named 'nope'"),
        (["missing.py"], "there is no script 'missing.py'"),
        (["-m", "missing.module"], "there is no module 'missing.module'"),
    ],
)
def test_run_says_in_one_line_what_is_wrong(given, words):
    result = mpicomp("run", *given)
    assert result.returncode == 2 and result.stdout == ""
    assert (
        result.stderr.startswith("mpicomp run: error: ") and words in result.stderr and result.stderr.count("\n") == 1
    )


def test_run_shows_once_what_a_script_raised(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mpicomp\nmpicomp.codec('nope')\n")
    result = mpicomp("run", str(script))
    assert result.returncode == 1 and result.stderr.count("Traceback") == 1 and "line 2" in result.stderr


@pytest.mark.parametrize("how", ["fail", "leave"])
def test_run_ends_all_ranks_if_one_fails(script, how):
    result = launch.run(3, "-m", "mpicomp", "run", str(script), how, limit=60)
    assert result.returncode not in (0, 124), launch.describe(result)
    assert how == "leave" or "ValueError: on purpose" in result.stderr


def test_demo_is_a_table_and_ends_with_the_same_bits():
    shown = launch.mpirun(2, "-m", "mpicomp", "demo", "--sizes", "4KB", "1MB", "--runs", "2", limit=120)
    lines = shown.splitlines()
    assert lines[0].startswith("mpicomp ") and "2 ranks" in lines[0]
    assert "speed-up" in shown and "error" in shown
    assert [line for line in lines if line.split()[:2] == ["4", "KB"]]
    assert [line for line in lines if line.split()[:2] == ["1", "MB"]]
    assert lines[-1] == "every rank has the same bits"


def test_demo_on_one_rank_says_that_nothing_was_sent():
    shown = mpicomp("demo", "--sizes", "4KB", "--runs", "1").stdout
    assert "every rank has the same bits" in shown and "mpirun -n 2" in shown


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "required"),
        (["dmo"], "invalid choice"),
        (["bench", "codecs", "naturl"], "did you mean 'natural'"),
        (["bench", "codecs", "--format", "osu"], "'osu' is for times of messages; here: table, csv, json"),
        (["simulate", "--ranks", "1,2,3"], "'1,2,3' is not a list of numbers of ranks, 2 or more"),
        (["demo", "--sizes", "many"], "invalid parse_size value"),
        (["run"], "required"),
    ],
)
def test_mistakes_on_the_command_line_are_told(arguments, words):
    result = mpicomp(*arguments)
    assert result.returncode != 0 and words in result.stderr and "Traceback" not in result.stderr


def test_help_lists_every_command():
    shown = mpicomp("--help").stdout
    for command in ("demo", "bench", "info", "run"):
        assert command in shown
