"""How much memory a collective takes beside its arrays: at most twice the compressed array and 8 MB, as the kernel counts.

With -s rank 0 prints, in MB: what is sent, what was taken, what may be.
"""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD
N = 10_000_000


def peak(collective):
    """Bytes by which this process is larger at the most than before."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # else what others left is used, and not seen
    Path("/proc/self/clear_refs").write_text("5")
    before = most()
    collective()
    return most() - before


def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@pytest.mark.host
@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "codec, algorithm",
    [
        ("natural", "direct"),
        ("natural", "gather"),
        ("natural", "ring"),
        ("dithering:bits=4", "direct"),
        ("grid", "direct"),
        ("topk:ratio=0.01", "direct"),
        ("topk:ratio=0.01|natural", "gather"),
        ("lowrank:rank=2", "lowrank"),
    ],
)
def test_a_collective_takes_no_more_than_twice_the_compressed_array_and_8_mb(codec, algorithm):
    holds(codec, algorithm)


@pytest.mark.host
@pytest.mark.ranks(4)
@pytest.mark.parametrize("codec", ["natural", "topk:ratio=0.01"])
def test_nor_does_one_whose_nodes_sum_exactly_before(codec):
    holds(codec, "hierarchical:nodes_of=3")


def holds(codec, algorithm):
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the kernel does not count anew")
    comm = mpicomp.Comm(WORLD.Dup(), codec, algorithm=algorithm)
    comm.Allreduce(MPI.IN_PLACE, np.ones((100, 100), "f4"))  # code and connections are no memory of a call
    x = np.random.default_rng(comm.rank).standard_normal((N // 1000, 1000), "f4")
    out = np.ones_like(x)
    compressed = comm.plan(x).wire_bytes  # of 2 ranks, or nodes, either way
    taken = WORLD.allreduce(peak(lambda: comm.Allreduce(x, out)), MPI.MAX)
    if comm.rank == 0:
        print(
            f"| `{codec}` | {algorithm} | {compressed / 2**20:.1f} | {taken / 2**20:.1f} | {compressed / 2**19 + 8:.1f} |"
        )
    comm.Free()
    assert taken <= 2 * compressed + (8 << 20)
