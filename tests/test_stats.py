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


def test_a_timeline_without_a_folder_is_warned_of_and_the_program_goes_on(tmp_path):
    text = start(True, MPICOMP_TIMELINE=str(tmp_path / "missing" / "t.json")).stderr
    assert text.count("MPICOMP_TIMELINE: there is no folder") == 1 and "Traceback" not in text


NEIGHBOURS = """
import numpy as np
from mpi4py import MPI
import mpicomp
ring = mpicomp.ring(MPI.COMM_WORLD, "natural", algorithm="direct")
x, rows = np.ones(20_000, "f4"), np.empty((2, 20_000), "f4")
ring.Neighbor_allgather(x, rows)
request = ring.Neighbor_allgather_init(x, rows, memory="difference")
request.Start()
request.Wait()
ring.neighbor_allreduce(x)
for _ in range(2):
    ring.Neighbor_allgather(x, rows, algorithm="raw")
assert ring.stats.calls == 5 or not ring.stats.timed
assert ring.stats.raw_bytes == ring.stats.calls * x.nbytes >= 4 * x.nbytes
assert ring.stats.wire_bytes == 3 * 22_500
for method in (mpicomp.gossip.Choco(ring, x, gamma=0.3), mpicomp.gossip.PowerGossip(ring, rows)):
    method.mix(x if method.layout.n == x.size else rows)
large, rows = np.ones(1 << 19, "f4"), np.empty((2, 1 << 19), "f4")
ring.stats.reset()
ring.Neighbor_allgather(large, rows, algorithm="auto")  # tried first
assert ring.stats.calls == 1 and ring.stats.wire_bytes in (0, 9 * large.size // 8)
"""


@pytest.mark.parametrize("variables", [{}, {"MPICOMP_DEBUG": "1", "MPICOMP_STATS": "1"}])
def test_neighbour_collectives_and_gossip_are_counted_too(variables):
    result = launch.run(2, "-c", NEIGHBOURS, **variables)
    assert result.returncode == 0, launch.describe(result)
    lines = [line for line in result.stderr.splitlines() if line.startswith("r0 |")]
    assert bool(lines) == bool(variables)
    if variables:
        shown = [line for line in lines if " float32" in line]
        assert re.match(
            r"r0 \| Neighbor_allgather 20000 float32 natural direct: 22,500 bytes sent, [\d.]+ ms", shown[0]
        )
        assert shown[3] == "r0 | Neighbor_allgather 20000 float32 raw: left to MPI"
        assert re.match(r"r0 \| Choco 20000 float32 in 1 natural direct: 22,500 bytes sent", shown[5])
        assert re.match(r"r0 \| PowerGossip 40000 float32 in 1 raw direct: [\d,]+ bytes sent", shown[6])
        assert any(line.startswith("r0 | Neighbor_allgather") and line not in shown for line in lines)
