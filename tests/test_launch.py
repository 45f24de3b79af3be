"""Kernels by name, and ranges in threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from common import DTYPES, bits, normal, use_level

import mpicomp
from mpicomp import arrays, launch
from mpicomp.codecs.base import Stream, Terms
from mpicomp.codecs.blocked import Piece

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


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
@pytest.mark.parametrize("spec", ["natural", "qsgd:bits=3,block=64", "sign:block=64"])
def test_pieces_in_a_row_are_as_each_alone(compiled, spec, kind):
    codec, settings = mpicomp.codec(spec), Stream(7, 0, 3)
    xs = [arrays.flatten(normal(n, kind, n)) for n in (320, 1000)]
    item = xs[0].data.itemsize
    pieces, alone = [], []
    for k, lo, hi, first in [(0, 64, 320, 64), (1, 0, 192, 320), (1, 192, 1000, 512)]:
        pieces.append(Piece(k, lo * item, hi - lo, sum(wire.size for wire in alone), first))
        alone.append(np.zeros(codec.size(hi - lo, kind), np.uint8))
        codec.encode_into(xs[k][lo:hi], alone[-1], settings._replace(first=first))
    where = [arrays.address(x.data) for x in xs]
    wire, result = (np.zeros(sum(each.size for each in alone), np.uint8) for _ in range(2))
    assert codec.in_a_row(kind, wire)
    codec.encode_pieces(pieces, kind, where, arrays.address(wire), settings)
    assert (wire == np.concatenate(alone)).all()
    came = [arrays.address(wire)] * 2
    codec.reduce_pieces(pieces, kind, came, 1, where, 0.5, arrays.address(result), settings)
    for (k, at, n, begin, first), part in zip(pieces, alone):
        own = xs[k][at // item : at // item + n]
        reduced = np.zeros_like(part)
        codec.reduce_into(Terms([part, part], 1, own, n, kind), 0.5, reduced, settings._replace(first=first))
        assert (result[begin : begin + part.size] == reduced).all()
    outs = [arrays.flatten(np.zeros_like(normal(x.n, kind))) for x in xs]
    codec.decode_pieces(pieces, kind, arrays.address(wire), [arrays.address(out.data) for out in outs])
    for (k, at, n, _, _), part in zip(pieces, alone):
        out = np.empty(n, DTYPES[kind])
        codec.decode_into(part, arrays.flatten(out))
        assert (bits(out) == bits(outs[k].data[at // item : at // item + n])).all()
    assert not bits(outs[0].data[:64]).any()
