"""The command line, as people start it."""

from __future__ import annotations

import json
import os
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
        (["docs"], "'docs' is a folder without a __main__.py"),
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


@pytest.mark.parametrize("library", ["mpich", "openmpi"])
@pytest.mark.parametrize("argument, code, words", [("3", 3, ""), ("'no input'", 1, "no input")])
def test_run_ends_with_the_code_and_the_message_of_the_script(tmp_path, library, argument, code, words):
    if not launch.available(library):
        pytest.skip(f"no environment with {library} (make test makes it)")
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nsys.exit({argument})\n")
    result = launch.run(2, "-m", "mpicomp", "run", str(script), library=library)
    assert result.returncode == code and words in result.stderr, launch.describe(result)
    result = mpicomp("run", str(script))
    assert result.returncode == code and result.stderr.strip() == words


FEW = ("-b", "4K", "-e", "4K", "-n", "1")


def test_tune_adds_tables_to_a_file_and_begins_at_a_value(tmp_path):
    file = tmp_path / "tuning.json"
    launch.mpirun(2, "-m", "mpicomp", "tune", "-b", "0", "-e", "64", "-n", "1", "-o", str(file))
    first = json.loads(file.read_text())["tables"]
    assert [nbytes for nbytes, _ in next(iter(first.values()))["raw"]] == [4, 16, 64]
    damaged = {**first, "another": {}}
    file.write_text(json.dumps({"mpicomp tuning": 1, "tables": damaged}))
    result = mpicomp("tune", *FEW, "-o", str(file))
    assert "a table of the tuning file" in result.stderr and "(another)" in result.stderr
    assert set(first) < set(json.loads(file.read_text())["tables"]) and "another" not in file.read_text()


def test_tune_without_a_name_writes_where_it_says(tmp_path):
    environment = {**os.environ, "MPICOMP_TUNING": "", "PYTHONPATH": str(launch.ROOT)}
    result = launch.limited([sys.executable, "-m", "mpicomp", "tune", *FEW], 60, environment, tmp_path)
    assert result.returncode == 0 and (tmp_path / "mpicomp-tuning.json").exists(), launch.describe(result)


@pytest.mark.parametrize(
    "name, words", [("notes.txt", "is no tuning file"), ("notes.txt/t.json", "cannot be written"), (".", "cannot be")]
)
def test_tune_says_on_all_ranks_what_it_cannot_write_before_it_measures(tmp_path, name, words):
    (tmp_path / "notes.txt").write_text("mine")
    codecs = ("--codec", "natural", "--codec", "bf16")
    result = launch.run(2, "-m", "mpicomp", "tune", *FEW, *codecs, "-o", str(tmp_path / name), limit=30)
    assert result.returncode not in (0, 124) and result.stdout == "", launch.describe(result)
    assert result.stderr.count(words) == 2 and "Traceback" not in result.stderr
    assert (tmp_path / "notes.txt").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("given", [["--size", "28"], ["--size", "1M", "--lowrank", "100000"]])
def test_simulate_leaves_out_what_does_not_fit(given):
    shown = json.loads(mpicomp("simulate", "--ranks", "8", *given, "--format", "json").stdout)
    assert {row["what"] for row in shown["rows"]} == {"raw", "allreduce", "gossip"}
    assert not any(row["algorithm"] == "lowrank" for row in shown["rows"])
    assert shown["notes"][0].startswith("lowrank is left out: ")


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
        (["demo", "--sizes", "many"], "'many' is not a size"),
        (["demo", "--sizes", "0"], "'0' is too small: a size is at least 4 bytes"),
        (["demo", "--runs", "0"], "--runs: '0' is not a whole number of at least 1"),
        (["tune", "-n", "0"], "-n/--repeats: '0' is not a whole number of at least 1"),
        (["tune", "-b", "8K", "-e", "4K"], "there are no sizes from 8192 to 4096 bytes"),
        (["simulate", "--size", "3"], "'3' is too small"),
        (["simulate", "--plot", "missing/a.png"], "there is no folder"),
        (["simulate", "-J", "docs"], "-J docs cannot be written"),
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
