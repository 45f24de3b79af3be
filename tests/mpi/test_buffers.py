"""mpi4py's buffer specs, and arrays of every kind, through Allreduce."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from common import normal
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD
ONE_TO_N = WORLD.size * (WORLD.size + 1) // 2
mine = WORLD.rank + 1.0


@pytest.fixture(autouse=True)
def exact(comm):
    """Sums of small whole numbers are exact in raw, which is compressed here like any other codec."""
    comm._settings = comm._settings.override(codec="raw")


def summed(values):
    return (np.asarray(values, np.complex128) == ONE_TO_N).all()


@pytest.mark.parametrize("dtype, datatype", [("f4", MPI.FLOAT), ("f8", MPI.DOUBLE), ("c8", MPI.C_FLOAT_COMPLEX)])
def test_an_array_may_come_with_its_datatype_and_count(comm, dtype, datatype):
    x, out = np.full(10, mine, dtype), np.zeros(10, dtype)
    comm.Allreduce([x, datatype], [out, datatype])
    assert summed(out)
    out[:] = 0
    comm.Allreduce([x, 4, datatype], [out, 4, datatype])
    assert summed(out[:4]) and not out[4:].any()
    comm.Allreduce(MPI.IN_PLACE, [x, datatype])
    assert summed(x)
    x[:] = mine
    comm.Allreduce(x, [out, out.dtype.char])
    assert summed(out)


@pytest.mark.parametrize("dtype, datatype", [("f4", MPI.FLOAT), ("c8", MPI.C_FLOAT_COMPLEX)])
def test_counts_and_displacements_are_understood_as_in_mpi4py(comm, dtype, datatype):
    x = np.arange(10).astype(dtype)
    for rest, first, n in (
        ([np.int64(4), datatype], 0, 4),
        ([None, datatype], 0, 10),
        ([(4, 0), datatype], 0, 4),
        ([[4, 3], datatype], 3, 4),
        ([(4, None), datatype], 0, 4),
        ([(None, 3), datatype], 3, 7),
        ([4, 3, datatype], 3, 4),
        ([None, 3, datatype], 3, 7),
        ([4], 0, 4),
        ([None], 0, 10),
        ([(4, 3)], 3, 4),
        ([(0, 10)], 10, 0),
        ([4, x.dtype.char], 0, 4),
    ):
        expected, out = np.full(n, -1, dtype), np.full(n, -1, dtype)
        MPI.COMM_SELF.Allreduce([x, *rest], expected)
        assert (expected == x[first : first + n]).all()
        calls = comm.stats.calls
        comm.Allreduce([x, *rest], out)
        assert comm.stats.calls == calls + 1 and (out == comm.size * expected).all()


def test_no_input_means_in_place_as_in_mpi4py(comm):
    x = np.full(10, mine, np.float32)
    calls = comm.stats.calls
    comm.Allreduce(None, x)
    assert summed(x) and comm.stats.calls == calls + 1
    x[:] = mine
    comm.Iallreduce(None, x).Wait()
    assert summed(x)
    rows = np.zeros((comm.size, 3), np.float32)
    rows[comm.rank] = mine
    comm.Allgather(None, rows, codec="raw")
    assert (rows == np.arange(1.0, comm.size + 1)[:, None]).all()


def test_buffers_of_the_standard_library_are_summed(comm):
    x, out = array("d", [mine] * 20), array("d", [0] * 20)
    comm.Allreduce(x, out)
    assert summed(out)
    memory = bytearray(np.full(6, mine, "f4").tobytes())
    comm.Allreduce(MPI.IN_PLACE, [memory, MPI.FLOAT])
    assert summed(np.frombuffer(memory, "f4"))
    comm.Allreduce(MPI.IN_PLACE, memoryview(x))
    assert summed(x)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_are_summed_as_pairs(comm, dtype):
    x = np.full((3, 7), mine + 2j * mine, dtype)
    out = np.zeros_like(x)
    comm.Allreduce(x, out)
    assert (out == ONE_TO_N * (1 + 2j)).all()


def test_arrays_of_any_layout_and_shape_are_summed(comm):
    x = np.asfortranarray(np.arange(12.0).reshape(3, 4) * mine)
    out = np.zeros_like(x)
    comm.Allreduce(x, out)
    assert out.flags.f_contiguous and (out == ONE_TO_N * np.arange(12).reshape(3, 4)).all()
    scalar = np.array(mine, np.float32)
    comm.Allreduce(MPI.IN_PLACE, scalar)
    assert scalar == ONE_TO_N
    part = np.full(100, mine, np.float32)
    comm.Allreduce(MPI.IN_PLACE, part[1:50])
    assert summed(part[1:50]) and (part[50:] == mine).all() and part[0] == mine


def test_bfloat16_of_ml_dtypes_is_summed(comm):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.full(100, mine, ml_dtypes.bfloat16)
    comm.Allreduce(MPI.IN_PLACE, x)
    assert summed(x.astype(np.float32))
    auto = mpicomp.Comm(comm, algorithm="auto")
    y = np.full(100, mine, ml_dtypes.bfloat16)
    auto.Allreduce(MPI.IN_PLACE, y)
    assert summed(y.astype(np.float32))


def test_float16_is_summed_whatever_its_size(comm):
    auto = mpicomp.Comm(comm, algorithm="auto")
    for n in (1, 100, 70_000):
        x, out = np.full(n, mine, np.float16), np.zeros(n, np.float16)
        auto.Allreduce(x, out)
        assert summed(out)


def test_nothing_beyond_the_result_is_written(comm):
    for codec in ("raw", "natural", "natural:bits=8"):
        guarded = np.full(1200, 7, np.float32)
        comm.Allreduce(normal(1001), guarded[100:1101], codec=codec)
        assert (guarded[:100] == 7).all() and (guarded[1101:] == 7).all()


def test_the_input_is_left_alone(comm):
    x = normal(1000, seed=comm.rank)
    before = x.copy()
    comm.Allreduce(x, np.empty_like(x), codec="natural")
    assert (x == before).all()
    x.flags.writeable = False
    comm.Allreduce(x, np.empty_like(x), codec="natural")
