"""mpicomp bench: the options of nccl-tests and of the OSU benchmarks, every format, and what the numbers must obey."""

from __future__ import annotations

import argparse
import csv
import io
import json
from importlib.util import find_spec

import launch
import numpy as np
import pytest
from test_cli import mpicomp

from mpicomp.cli.bench import options
from mpicomp.cli.bench.data import values
from mpicomp.codecs.base import REGISTRY
from mpicomp.errors import Error

FAST = ("-n", "2", "-w", "1")


def bench(*arguments: str, ranks: int = 2) -> str:
    return launch.mpirun(ranks, "-m", "mpicomp", "bench", *arguments)


def rows_of(shown: str) -> list[dict]:
    return json.loads(shown)["rows"]


def test_allreduce_compares_every_algorithm_with_auto_and_with_plain_mpi_at_each_size(tmp_path):
    file = tmp_path / "out.json"
    codecs = (
        "--codec",
        "natural,qsgd:bits=4,block=64",
        "--codec",
        "raw",
        "--algorithm",
        "auto",
        "--algorithm",
        "ring,direct",
    )
    shown = bench("allreduce", "-b", "8", "-e", "256K", "-f", "32768", *FAST, "-c", "1", "-J", str(file), *codecs)
    rows = rows_of(file.read_text())
    assert len(rows) == 2 * 3 * 3 and all(f"{row['size']}" in shown for row in rows)
    for row in rows:
        assert row["min_us"] <= row["avg_us"] <= row["max_us"] and row["raw_us"] > 0 and row["iterations"] == 2
        assert row["speedup"] == pytest.approx(row["raw_us"] / row["time_us"])
        assert row["algbw"] == pytest.approx(row["size"] / row["time_us"] / 1e3)
        assert row["busbw"] == pytest.approx(row["algbw"])  # 2 (p - 1) / p on two ranks
    large = {(row["codec"], row["algorithm"]): row for row in rows if row["size"] == 256 << 10}
    assert large["natural", "ring"]["used"] == "ring"
    assert large["natural", "ring"]["ratio"] == pytest.approx(32 / 9, rel=0.01)
    assert 0.1 < large["natural", "direct"]["error"] < 0.5
    assert large["raw", "direct"]["error"] < 1e-6


def test_formats_hold_the_same_numbers_of_rows_and_nothing_else_on_stdout():
    what = ("allreduce", "natural", "-m", "64K:128K", "-f", "2", "-i", "2", "-x", "0", "-c", "0")
    assert len(rows_of(bench(*what, "--format", "json"))) == 2
    table = list(csv.DictReader(io.StringIO(bench(*what, "--format", "csv"))))
    assert [row["size"] for row in table] == ["65536", "131072"] and table[0]["error"] == ""
    osu = [line.split() for line in bench(*what, "--format", "osu").splitlines() if line and line[0] != "#"]
    assert [line[0] for line in osu] == ["65536", "131072"] * 2 and all(float(line[1]) > 0 for line in osu)


def test_the_family_and_neighbours_are_measured_on_what_each_of_them_takes():
    shown = bench(
        "family", "natural", "-b", "300K", "-e", "300K", *FAST, "--algorithm", "direct", "--format", "json", ranks=3
    )
    rows = {row["collective"]: row for row in rows_of(shown)}
    assert set(rows) == {"Reduce_scatter_block", "Allgather", "Bcast", "Reduce"}
    shown = bench(
        "neighbor", "natural", "-b", "300K", "-e", "300K", *FAST, "--algorithm", "direct", "--format", "json", ranks=3
    )
    rows["neighbor"] = rows_of(shown)[0]
    for name, row in rows.items():
        assert 0.05 < row["error"] < 0.6 and row["ratio"] > 1.7 and row["used"] == "direct", name
    assert rows["neighbor"]["ratio"] == pytest.approx(32 / 9, rel=0.01)


def test_overlap_is_a_percentage_and_knows_plain_mpi_too():
    rows = rows_of(bench("overlap", "natural", "--sizes", "256K", *FAST, "--algorithm", "direct", "--format", "json"))
    assert [row["codec"] for row in rows] == ["MPI alone", "natural"]
    assert all(0 <= row["overlap"] <= 100 and row["time_us"] > 0 and row["compute_us"] > 0 for row in rows)


def test_overlap_is_printed_as_the_osu_benchmarks_do():
    what = ("overlap", "natural", "--sizes", "64K", *FAST, "--algorithm", "direct", "--format", "osu")
    lines = [line for line in bench(*what).splitlines() if line]
    assert "# Iallreduce, MPI alone, -" in lines and "# Iallreduce, natural, direct" in lines
    assert sum("Overall(us)" in line and "Overlap(%)" in line for line in lines) == 2
    assert [line.split()[0] for line in lines if line[0] != "#"] == ["65536"] * 2


def test_codecs_take_the_sizes_and_turns_of_the_others():
    what = ("bench", "codecs", "natural", "--data", "normal", "-i", "1", "-x", "0", "-c", "0", "--format", "json")
    rows = json.loads(mpicomp(*what, "-m", "4K:64K", "-f", "4").stdout)["rows"]
    assert [row["size"] for row in rows] == [4096, 16384, 65536] and all(row["error"] is None for row in rows)
    rows = json.loads(mpicomp(*what, "-e", "8K").stdout)["rows"]
    assert [row["size"] for row in rows] == [8192]


def test_peers_are_compared_where_they_are_installed_and_a_picture_is_drawn(tmp_path):
    pytest.importorskip("torch")
    picture = tmp_path / "times.png"
    what = ("allreduce", "natural", "--sizes", "64K", *FAST, "--format", "json", "--compare", "--plot", str(picture))
    rows = {row["codec"]: row for row in rows_of(bench(*what))}
    assert rows["mpi4py float16"]["error"] < 1e-3 and rows["torch fp16 hook"]["error"] < 1e-3
    assert rows["torch gloo"]["error"] < 1e-6 and rows["torch PowerSGD hook"]["error"] <= 1.0
    assert picture.read_bytes()[1:4] == b"PNG"


def test_codecs_keep_their_bounds_on_every_kind_of_data():
    what = ("bench", "codecs", "natural,qsgd:bits=8", "--codec", "raw", "--size", "1MB", "-n", "2", "--format", "json")
    shown = json.loads(mpicomp(*what, "--compare").stdout)
    rows = [row for row in shown["rows"] if row["bound"] is not None]
    assert [row["data"] for row in rows] == ["normal"] * 3 + ["heavy"] * 3 + ["gradient"] * 3
    assert all(row["error"] <= row["bound"] and row["encode"] > 0 and row["decode"] > 0 for row in rows)
    assert {row["codec"]: round(row["bits"], 2) for row in rows} == {"natural": 9, "qsgd:bits=8": 8.06, "raw": 32}
    for name in ("zfpy", "blosc2"):
        assert any(name in note for note in shown["notes"]) == (find_spec(name) is None)


def test_info_lists_every_codec_with_its_speed():
    lines = {line.split()[0]: line.split() for line in mpicomp("info", "--codecs").stdout.splitlines() if line}
    for name in REGISTRY:
        assert name in lines and lines[name][3] in ("biased", "unbiased")
    assert lines["natural"][1:4] == ["9", "0.125", "unbiased"] and lines["natural"][4].endswith("x")


def test_what_cannot_be_measured_is_left_out_and_said():
    shown = bench("allreduce", "natural", "lowrank", "-b", "64K", "-e", "64K", *FAST, "--algorithm", "direct")
    assert "# Allreduce, lowrank, direct is left out: " in shown


def test_lists_are_split_at_commas_that_belong_to_no_setting():
    assert options.split(["natural, raw", "qsgd:bits=4,block=64,topk:k=3|natural:bits=8,rounding=nearest,bf16"]) == [
        "natural",
        "raw",
        "qsgd:bits=4,block=64",
        "topk:k=3|natural:bits=8,rounding=nearest",
        "bf16",
    ]


@pytest.mark.parametrize(
    "words, expected",
    [
        ("-b 8 -e 128 -f 2", [8, 16, 32, 64, 128]),
        ("-b 1K -e 3K --stepbytes 1K", [1024, 2048, 3072]),
        ("-m 16:64", [16, 64]),
        ("-m 4K", [1024, 4096]),
        ("--sizes 5 7", [5, 7]),
    ],
)
def test_sizes_follow_from_either_kind_of_options(words, expected):
    parser = argparse.ArgumentParser()
    options.add_sizes(parser)
    assert options.sizes(parser.parse_args(words.split())) == expected


def test_every_rank_has_data_of_its_own(tmp_path):
    stored = tmp_path / "values.npy"
    np.save(stored, np.arange(10.0))
    assert values(str(stored), 4, rank=2).tolist() == [8, 9, 0, 1]
    for kind in ("normal", "heavy", "sparse"):
        first, second = values(kind, 1000), values(kind, 1000, rank=1)
        assert first.dtype == np.float32 and not np.array_equal(first, second)
    assert 0 < np.count_nonzero(values("sparse", 10_000)) < 300


@pytest.mark.parametrize("graph", ["grid", "torus", "star"])
def test_only_rows_of_other_ranks_count_on_a_graph(graph):
    what = ("neighbor", "natural", "--graph", graph, "--sizes", "64K", *FAST, "--algorithm", "direct")
    (row,) = rows_of(bench(*what, "--format", "json", ranks=3))
    assert 0.1 < row["error"] < 0.5 and row["ratio"] == pytest.approx(32 / 9, rel=0.01)


def test_json_has_null_for_what_is_not_finite_and_nothing_is_warned_of(tmp_path):
    data, file = tmp_path / "infinite.npy", tmp_path / "out.json"
    np.save(data, np.array([1.0, np.inf, -np.inf, 1e300]))
    what = ("--data", str(data), "--size", "4K", "-n", "1", "--format", "json", "-J", str(file))
    result = mpicomp("bench", "codecs", "natural", *what)
    assert result.stderr == "" and file.read_text() == result.stdout.rstrip()
    assert [row["error"] for row in rows_of(result.stdout)] == [None] and "NaN" not in result.stdout
    result = mpicomp("bench", "allreduce", "natural", "--data", str(data), "--sizes", "4K", *FAST, "--format", "json")
    assert result.stderr == "" and [row["error"] for row in rows_of(result.stdout)] == [None]


def test_a_file_that_some_ranks_cannot_read_is_told_on_all(tmp_path):
    np.save(tmp_path / "0.npy", np.ones(10))
    program = "import sys; from mpi4py import MPI; from mpicomp.cli import main; main([*sys.argv[2:], '--data', sys.argv[1] % MPI.COMM_WORLD.rank])"
    for what in ("allreduce", "overlap"):
        given = ("-c", program, str(tmp_path / "%d.npy"), "bench", what, "natural", "--sizes", "4K", *FAST)
        result = launch.run(2, *given, limit=30)
        assert result.returncode not in (0, 124), launch.describe(result)
        assert result.stderr.count("is neither a file nor one of") == 2 and "(on rank 1)" in result.stderr


@pytest.mark.parametrize("name", ["folder", "damaged.npy", "empty.npy", "object.npy", "complex.npy", "several.npz"])
def test_files_without_real_numbers_are_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'")
    (tmp_path / "empty.npy").write_bytes(b"")
    np.save(tmp_path / "object.npy", np.array([None, "x"]), allow_pickle=True)
    np.save(tmp_path / "complex.npy", np.ones(4, complex))
    np.savez(tmp_path / "several.npz", np.ones(4))
    with pytest.raises(Error, match=f"--data .*{name}"):
        values(str(tmp_path / name), 4)


def test_outputs_are_tried_on_all_ranks_before_anything_is_measured(tmp_path):
    result = launch.run(2, "-m", "mpicomp", "bench", "overlap", "-J", str(tmp_path / "no" / "a.json"), limit=30)
    assert result.returncode not in (0, 124) and result.stdout == "", launch.describe(result)
    assert result.stderr.count("there is no folder") == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["allreduce", "-f", "1"], "must be more than 1"),
        (["allreduce", "--algorithm", "rng"], "no algorithm named 'rng'"),
        (["family", "--collective", "Scan"], "no collective named 'scan'"),
        (["allreduce", "-m", "8K:4K"], "there are no sizes from 8192 to 4096 bytes"),
        (["allreduce", "-b", "1K", "-e", "0"], "there are no sizes from 1024 to 0 bytes"),
        (["codecs", "-b", "8K", "-e", "4K", "--plot", "c.png"], "there are no sizes"),
        (["allreduce", "-n", "-3"], "'-3' is not a whole number of at least 1"),
        (["allreduce", "-w", "-1"], "'-1' is not a whole number of at least 0"),
        (["codecs", "-n", "0"], "'0' is not a whole number of at least 1"),
        (["overlap", "-t", "-1"], "'-1' is not a whole number of at least 0"),
        (["codecs", "-J", "missing/a.json"], "there is no folder"),
        (["codecs", "--plot", "a.nope"], "no picture is called .nope (known: "),
    ],
)
def test_mistakes_are_told_without_a_traceback(arguments, words):
    result = mpicomp("bench", *arguments)
    assert result.returncode != 0 and words in result.stderr and "Traceback" not in result.stderr
