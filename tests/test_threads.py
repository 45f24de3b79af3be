"""Every kernel from several threads: the same bits as from one. `make sanitize` runs this under ThreadSanitizer too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from common import DTYPES, SPECS, bits, normal

import mpicomp
from mpicomp import arrays, launch
from mpicomp.arrays import KINDS, Flat
from mpicomp.codecs import lowrank
from mpicomp.codecs.base import Stream, Terms

SPARSE = ["topk:ratio=0.1,block=512", "randk:k=9,block=512", "topk:ratio=0.1,block=512|natural"]
EACH = [(spec, kind) for spec in [*SPECS, *SPARSE, "grid:bits=4"] for kind in mpicomp.codec(spec).kinds]
LEAST = 4096  # values that make a thread worth its start, here: a range takes long enough for others to begin
N = 4 * LEAST + 77
SHARED = 5  # the key of all ranks, for randk
MATRIX = lowrank.Matrix(130, 140)


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """A function that says how many threads a kernel may use."""
    monkeypatch.setattr(launch, "LEAST", LEAST)
    return lambda number: monkeypatch.setenv("MPICOMP_NUM_THREADS", str(number))


def everything(spec, kind, seed=0):
    """Whatever can be done with a codec, as bytes."""
    codec, flat = mpicomp.codec(spec), arrays.flatten(normal(N, kind, seed))
    wire, reduced = (np.zeros(codec.size(N, kind), np.uint8) for _ in range(2))
    out, acc = np.empty(N, DTYPES[kind]), np.ones(N, KINDS[kind].accumulator)
    codec.encode_into(flat, wire, Stream(7, 0, 3, SHARED))
    codec.decode_into(wire, arrays.flatten(out))
    codec.add_into(wire, acc, kind, 0.25)
    codec.reduce_into(Terms([wire, wire], 1, flat, N, kind), 0.5, reduced, Stream(8, shared=SHARED))
    return b"".join(bits(each).tobytes() for each in (wire, out, acc, reduced))


def factors(seed=0):
    """The same of low rank."""
    x, out = normal(MATRIX.rows * MATRIX.cols, seed=seed), np.empty(MATRIX.rows * MATRIX.cols, np.float32)
    left = lowrank.project(x, MATRIX, normal(2 * MATRIX.cols, seed=1), 2)
    lowrank.orthonormalize(left, MATRIX.rows, 2)
    right = lowrank.back(x, MATRIX, left, 2)
    lowrank.expand(left, right, MATRIX, 2, Flat(out, "f32"))
    return b"".join(each.tobytes() for each in (left, right, out))


@pytest.mark.parametrize("spec, kind", EACH)
def test_threads_do_not_change_the_bytes(compiled, threads, spec, kind):
    threads(1)
    alone = everything(spec, kind)
    for number in (2, 3):
        threads(number)
        assert everything(spec, kind) == alone


def test_threads_do_not_change_the_bytes_of_low_rank(compiled, threads):
    threads(1)
    alone = factors()
    threads(3)
    assert factors() == alone


def test_threads_may_call_at_the_same_time(compiled, threads):
    """Several callers, whose kernels share the threads of the pool: nothing is kept between calls, or shared by them."""
    threads(2)
    jobs = [lambda seed=seed: factors(seed) for seed in range(3)]
    jobs += [lambda each=each, seed=seed: everything(*each, seed) for each in EACH for seed in range(2)]
    alone = [job() for job in jobs]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda job: job(), jobs)) == alone
