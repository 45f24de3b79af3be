"""Allreduce on every rank of a real MPI."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI


def test_every_rank_gets_the_same_bits(comm):
    x = np.random.default_rng(comm.rank).standard_normal(100_001).astype("f4")
    comm.Allreduce(MPI.IN_PLACE, x)
    everybody = comm.allgather(x.tobytes())
    assert all(each == everybody[0] for each in everybody)
