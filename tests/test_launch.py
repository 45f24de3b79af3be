"""Kernels by name, and ranges in threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from common import use_level

from mpicomp import launch

LARGE = 4 * launch.LEAST + 7


@pytest.fixture(params=[1, 2, 3])
def threads(request, monkeypatch):
    monkeypatch.setenv("MPICOMP_NUM_THREADS", str(request.param))
    return request.param


@pytest.mark.parametrize("n", [0, 1, 63, 64, launch.LEAST, LARGE])
def test_ranges_make_up_the_whole_and_are_cut_at_the_grain(threads, n):
    seen = []
    launch.parallel(lambda lo, hi: seen.append((lo, hi)), n, 64)
    seen.sort()
    assert seen[0][0] == 0 and seen[-1][1] == n and len(seen) <= threads
    assert all(hi == lo for (_, hi), (lo, _) in zip(seen, seen[1:]))
    assert all(lo % 64 == 0 for lo, _ in seen)


@pytest.mark.parametrize("n", [0, 1, launch.LEAST, LARGE])
def test_pieces_make_up_the_whole_and_are_cut_at_the_grain(threads, n):
    seen = list(launch.pieces(n, 1000))
    assert [0, *(hi for _, hi in seen)] == [*(lo for lo, _ in seen), n]
    assert all(lo % 1000 == 0 and hi - lo < threads * launch.LEAST + 1000 for lo, hi in seen)


def test_ranges_run_in_as_many_threads(threads):
    together = threading.Barrier(threads, timeout=20)
    launch.parallel(lambda lo, hi: together.wait(), LARGE, 64)


def test_an_exception_in_any_range_is_raised(threads):
    for bad in (0, LARGE - 1):

        def part(lo, hi, bad=bad):
            if lo <= bad < hi:
                raise ArithmeticError(bad)

        with pytest.raises(ArithmeticError):
            launch.parallel(part, LARGE, 64)
    launch.parallel(lambda lo, hi: None, LARGE, 64)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_threads_work_after_a_fork():
    """In a process of its own: pytest's may have threads that do not survive a fork."""
    work = f"launch.parallel(lambda lo, hi: None, {LARGE}, 64)"
    run(
        f"import os; from mpicomp import launch; {work}; pid = os.fork(); {work}\n"
        "os._exit(0) if pid == 0 else None; assert os.waitpid(pid, 0)[1] == 0",
        MPICOMP_NUM_THREADS="2",
    )


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_without_the_library_the_reference_runs_with_one_warning():
    done = run(
        "from mpicomp import launch; from pathlib import Path; launch.LIBRARY = Path('nowhere.so'); import numpy as np\n"
        "x, wire = np.ones(9, np.float32), np.zeros(11, np.uint8)\n"
        "for _ in range(2): launch.kernel('natural_encode_f32')(x, 9, wire, 1, 0, 0, 0)\n"
        "launch.kernel('natural_decode_f32')(wire, 9, x); assert (x == 1).all()"
    )
    assert done.stderr.count("RuntimeWarning") == 1 and "C compiler" in done.stderr


def test_importing_loads_and_starts_nothing():
    run(
        "import sys, threading; from mpicomp import launch\n"
        "assert launch._library.cache_info().currsize == 0 and threading.active_count() == 1"
    )


def test_the_level_can_be_chosen(monkeypatch):
    use_level(monkeypatch, "reference")
    assert launch.kernel("round_f16") is launch.reference.find("round_f16")
    use_level(monkeypatch, "v7")
    with pytest.raises(ValueError, match="possible: v4, v3, v1, reference"):
        launch.kernel("round_f16")


def test_a_kernel_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="natural_encode_f31"):
        launch.kernel("natural_encode_f31")


@pytest.mark.parametrize(
    "x",
    [np.ones(10, np.float64), np.ones(9, np.float32), np.ones(20, np.float32)[::2]],
    ids=["type", "length", "stride"],
)
def test_a_wrong_array_is_refused_before_any_pointer_is_used(x):
    with pytest.raises(TypeError, match="x: needs a contiguous array of 4-byte items, 10 or more"):
        launch.kernel("natural_encode_f32")(x, 10, np.zeros(12, np.uint8), 1, 0, 0, 0)


@pytest.fixture
def encode():
    """encode() writes a wire of one block, on a level that has C; the wire is zero before."""
    if launch.describe().startswith("NumPy"):
        pytest.skip("no C library")
    x, wire = np.ones(64, np.float32), np.zeros(72, np.uint8)
    return wire, lambda: launch.kernel("natural_encode_f32")(x, x.size, wire, 1, 0, 0, 0)


def test_kernels_together_run_at_the_end(encode):
    wire, run = encode
    with launch.together():
        run()
        assert not wire.any()
    assert wire.any()
    wire[:] = 0
    run()
    assert wire.any()


def test_kernels_together_do_not_run_after_an_error_and_later_ones_do(encode):
    wire, run = encode
    with pytest.raises(KeyError), launch.together():
        run()
        raise KeyError
    assert not wire.any()
    run()
    assert wire.any()


def test_kernels_together_in_one_thread_leave_those_of_others_alone(encode):
    wire, run = encode
    with launch.together():
        other = threading.Thread(target=run)
        other.start()
        other.join()
        assert wire.any()
