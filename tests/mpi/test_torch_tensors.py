"""torch CPU tensors through Allreduce. On a few ranks only: importing torch on each takes long."""

from __future__ import annotations

import pytest
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD
if WORLD.size > 2:
    pytest.skip("tested on 1 and 2 ranks", allow_module_level=True)
torch = pytest.importorskip("torch")

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
ONE_TO_N = WORLD.size * (WORLD.size + 1) // 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ["direct", "auto"])
@pytest.mark.parametrize("n", [1, 100, 100_000])
def test_tensors_are_summed(comm, dtype, algorithm, n):
    x, out = torch.full((n,), WORLD.rank + 1, dtype=dtype), torch.zeros(n, dtype=dtype)
    comm.Allreduce(x, out, codec="raw", algorithm=algorithm)
    assert (out == ONE_TO_N).all()
    comm.Allreduce(MPI.IN_PLACE, x, codec="natural", algorithm=algorithm)
    assert torch.isfinite(x).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ["direct", "auto"])
def test_tensors_that_require_grad_are_summed(comm, dtype, algorithm):
    x = torch.full((3, 5), WORLD.rank + 1.0, dtype=dtype, requires_grad=True)
    y = mpicomp.allreduce(x, codec="raw", comm=comm, algorithm=algorithm)
    assert isinstance(y, torch.Tensor) and y.shape == (3, 5) and y.dtype == dtype and not y.requires_grad
    assert (y == ONE_TO_N).all()
    out = torch.zeros_like(y)
    comm.Allreduce(x, out, codec="raw", algorithm=algorithm)
    assert (out == ONE_TO_N).all()
    comm.Allreduce(MPI.IN_PLACE, x, codec="raw", algorithm=algorithm)
    assert (x == ONE_TO_N).all()


def test_torch_and_numpy_get_the_same_bits(comm):
    x = torch.randn(5000, generator=torch.Generator().manual_seed(WORLD.rank))
    a = mpicomp.allreduce(x, comm=comm, seed=3)
    b = mpicomp.allreduce(x.numpy(), comm=comm, seed=3)
    assert torch.equal(a, torch.from_numpy(b))


def test_complex_tensors_and_integers_are_summed(comm):
    z = torch.full((10,), (1 + 2j) * (WORLD.rank + 1), dtype=torch.complex64)
    comm.Allreduce(MPI.IN_PLACE, z, codec="raw")
    assert (z == ONE_TO_N * (1 + 2j)).all()
    i = torch.arange(5)
    comm.Allreduce(MPI.IN_PLACE, i)
    assert torch.equal(i, WORLD.size * torch.arange(5))


def test_tensors_with_gaps_are_refused(comm):
    with pytest.raises((ValueError, mpicomp.RemoteError)):
        comm.Allreduce(MPI.IN_PLACE, torch.zeros(4, 6).T)
    x = torch.ones(100)
    comm.Allreduce(MPI.IN_PLACE, x, codec="raw")
    assert (x == WORLD.size).all()
