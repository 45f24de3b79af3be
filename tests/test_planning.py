"""What auto does with measured times, and what it does without."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mpicomp import calibration, planning, settings, tuning
from mpicomp.arrays import Flat
from mpicomp.timing import Table

KB, MB = 1 << 10, 1 << 20


def auto(nbytes, times=None, p=4, kind="f32"):
    """The plan that auto makes, with times as {algorithm: [(bytes, seconds), ...]}."""
    table = None if times is None else Table("of a test", times)
    return planning.choose(settings.make("natural"), nbytes // 4, kind, p, table)


def test_the_fastest_is_taken_at_each_size():
    times = {
        "raw": [(8 * KB, 10e-6), (4 * MB, 10e-3)],
        "direct": [(8 * KB, 50e-6), (4 * MB, 3e-3)],
        "ring": [(8 * KB, 90e-6), (4 * MB, 2e-3)],
    }
    assert auto(8 * KB, times).algorithm == "raw"
    assert auto(4 * MB, times).algorithm == "ring"
    assert auto(64 * MB, times).algorithm == "ring"
    assert auto(16 * KB, times).algorithm == "raw"
    plan = auto(4 * MB, times)
    assert "times of a test" in plan.why
    assert "expected: ring 2 ms, direct 3 ms, raw 10 ms" in str(plan)


def test_between_two_points_times_are_on_a_line():
    table = Table("", {"raw": [(10 * KB, 1e-5), (1000 * KB, 1e-3)]})
    assert table.estimate("raw", 100 * KB) == pytest.approx(1e-4)
    assert table.estimate("raw", 10 * KB) == pytest.approx(1e-5)
    assert table.estimate("raw", 1 * KB) == pytest.approx(1e-5)
    assert table.estimate("raw", 2000 * KB) == pytest.approx(2e-3)


def test_a_latency_and_a_bandwidth_give_every_size_from_two():
    latency, bandwidth = 2e-4, 1e8
    sizes = [8 * KB, 64 * KB, 512 * KB, 4 * MB]
    table = Table("", {"direct": [(n, latency + n / bandwidth) for n in sizes]})
    for n in (16 * KB, 100 * KB, 1 * MB, 40 * MB):
        assert table.estimate("direct", n) == pytest.approx(latency + n / bandwidth)


def test_noise_does_not_make_large_arrays_free():
    table = Table("", {"raw": [(1 * MB, 2e-3), (4 * MB, 1e-3)]})
    assert table.estimate("raw", 64 * MB) > 8e-3


def test_what_an_mpi_is_slow_at_is_found_when_such_an_array_comes_once(monkeypatch):
    raced = []

    def race(port, runs, repeats, progress=None):
        raced.append(now := sizes.pop(0))
        raw = 0.1 * now if now < 32 * MB else 0.4 * now  # of an MPI that takes fresh memory for more
        return {name: 1e-9 * (raw if name == "raw" else 0.2 * now) for name in runs}

    port = SimpleNamespace(rank=0, size=2, tables={}, near=False, shares=True, stats=SimpleNamespace(wire_bytes=0))
    port.pool = SimpleNamespace(clear=lambda: None)
    monkeypatch.setattr(calibration, "race", race)
    monkeypatch.setattr(tuning, "load", lambda *key: None)
    chosen, sizes = settings.make("natural"), [*calibration.SIZES, *calibration.LARGE]
    for megabytes, largest in ((1, 4), (16, 16), (40, 32), (64, 32), (1, 32)):
        n = megabytes * MB // 4
        table = calibration.table_for(port, chosen, Flat(np.empty(n, np.float32), "f32"))
        assert raced[-1] == largest * MB
        assert planning.choose(chosen, n, "f32", 2, table).algorithm == ("raw" if megabytes < 32 else "direct")
    assert not sizes  # each was measured once


@pytest.mark.parametrize("other, gain, taken", [("direct", 0.05, False), ("direct", 0.12, True), ("ring", 0.12, False), ("ring", 0.2, True)])  # fmt: skip
def test_what_is_exact_needs_a_reason_to_be_given_up(other, gain, taken):
    times = {"raw": [(1 * MB, 1e-3)], other: [(1 * MB, (1 - gain) * 1e-3)]}
    assert auto(1 * MB, times).algorithm == (other if taken else "raw")


def test_of_two_that_compress_the_one_that_rounds_once_needs_less():
    times = {"raw": [(1 * MB, 9.0)], "direct": [(1 * MB, 1.0)], "ring": [(1 * MB, 0.97)]}
    assert auto(1 * MB, times).algorithm == "direct"
    times["ring"] = [(1 * MB, 0.9)]
    assert auto(1 * MB, times).algorithm == "ring"


def test_a_server_is_never_taken_by_itself():
    assert auto(1 * MB, {"raw": [(1 * MB, 9.0)], "server": [(1 * MB, 1.0)]}).algorithm == "raw"


def test_without_times_large_arrays_are_compressed(monkeypatch):
    assert auto(255 * KB).algorithm == "raw"
    assert auto(256 * KB).algorithm == "direct"
    monkeypatch.setenv("MPICOMP_FLOOR", "1000000")
    assert auto(256 * KB).algorithm == "raw"


def test_rules_by_hand_come_first(monkeypatch):
    times = {"raw": [(1 * MB, 9.0)], "direct": [(1 * MB, 1.0)]}
    monkeypatch.setenv("MPICOMP_ALLREDUCE", "raw:0-8192;ring:8193-2M;direct:2M-max")
    assert [auto(n, times).algorithm for n in (1 * KB, 8 * KB, 1 * MB, 4 * MB)] == ["raw", "raw", "ring", "direct"]


def test_what_mpi_cannot_add_is_never_left_to_it(monkeypatch):
    assert auto(1 * KB, kind="bf16").algorithm == "direct"
    monkeypatch.setenv("MPICOMP_ALLREDUCE", "raw:0-8192;ring:8193-max")
    assert [auto(n, kind="bf16").algorithm for n in (1 * KB, 1 * MB)] == ["direct", "ring"]


def test_within_one_node_hierarchical_sums_are_exact_and_nothing_is_compressed():
    asked = settings.make("natural", "hierarchical")
    plans = [planning.choose(asked, 1 << 20, "f32", 4, nodes=nodes) for nodes in (1, 2, 4, None)]
    assert [plan.expected_error for plan in plans][0] == 0 and plans[0].wire_bytes == 2 * 3 * MB
    assert 0 < plans[1].expected_error < plans[2].expected_error == plans[3].expected_error
    assert plans[2].wire_bytes < plans[0].wire_bytes


def test_a_rank_that_is_alone_copies():
    assert auto(1 * MB, p=1).algorithm == "copy"
