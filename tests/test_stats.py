"""What was sent and where the time went: counted, printed at exit, a line a call, a timeline."""

from __future__ import annotations

import json
import re

import launch
import pytest

SCRIPT = """
import numpy as np
from mpi4py import MPI
import mpicomp
comm = mpicomp.Comm(MPI.COMM_WORLD, "natural", algorithm="direct")
x = np.ones(20_000, "f4")
out = np.empty_like(x)
comm.Allreduce(x, out)
comm.Allreduce(x, out, algorithm="ring")
comm.Iallreduce(x, out).Wait()
comm.Bcast(x, codec="natural")
comm.Allreduce(x, out, algorithm="raw")
stats = comm.stats
assert stats.calls == 5 and stats.raw_bytes == 5 * x.nbytes
assert stats.wire_bytes == 3 * 22_500 + (22_500 if comm.rank == 0 else 0)
assert (stats.total.codec > 0) == stats.timed == EXPECTED
stats.reset()
assert stats.calls == stats.wire_bytes == 0
comm.Allreduce(x, out)
"""


def start(expected, **variables):
    result = launch.run(2, "-c", SCRIPT.replace("EXPECTED", str(expected)), **variables)
    assert result.returncode == 0, launch.describe(result)
    return result


def test_calls_and_bytes_are_counted_and_nothing_is_printed_unless_asked_for():
    result = start(False)
    assert "Allreduce" not in result.stdout + result.stderr


def test_a_summary_of_one_rank_at_exit():
    text = start(True, MPICOMP_STATS="1").stderr
    assert re.search(r"^r0 \| Allreduce direct natural +1 +0\.08 +0\.02", text, re.MULTILINE)
    assert "r1 |" not in text


def test_a_line_a_call_and_a_summary_of_all_ranks():
    text = start(True, MPICOMP_DEBUG="1", MPICOMP_STATS="all").stderr
    assert "r1 | all" in text
    lines = [line for line in text.splitlines() if re.match(r"r0 \| \w+ 20000 float32 ", line)]
    assert len(lines) == 6
    assert re.match(r"r0 \| Allreduce 20000 float32 natural direct: 22,500 bytes sent, [\d.]+ ms \(codec", lines[0])
    assert lines[4] == "r0 | Allreduce 20000 float32 raw: left to MPI"


@pytest.mark.parametrize("name", ["t.json", "t-%r.json"])
def test_a_timeline_of_one_rank_or_all(tmp_path, name):
    start(True, MPICOMP_TIMELINE=str(tmp_path / name))
    expected = {"t.json": 0} if "%r" not in name else {"t-0.json": 0, "t-1.json": 1}
    assert {file.name for file in tmp_path.iterdir()} == set(expected)
    for file, rank in expected.items():
        events = json.loads((tmp_path / file).read_text())["traceEvents"]
        assert {event["name"] for event in events} >= {
            "encode",
            "reduce",
            "decode",
            "Bcast 20000 float32 natural direct",
        }
        assert all(event["pid"] == rank and event["ts"] > 0 for event in events)
        starts = sum(event["ph"] == "b" for event in events)
        assert starts == sum(event["ph"] == "e" for event in events) == 5
