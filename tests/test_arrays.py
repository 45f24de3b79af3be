"""Arrays of every framework as flat views: no copies, no imports, clear errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from mpi4py import MPI

import mpicomp
from mpicomp import arrays

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.complex64, np.complex128])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_arrays_are_viewed_without_a_copy(dtype, order):
    x = np.zeros((3, 5), dtype, order=order)
    flat = arrays.flatten(x)
    flat.data[:] = 1
    assert np.shares_memory(flat.data, x) and flat.nbytes == x.nbytes
    assert flat.data.dtype == arrays.KINDS[flat.kind].storage
    assert x.any()


@pytest.mark.parametrize(
    "dtype, kind",
    [
        (torch.float32, "f32"),
        (torch.float64, "f64"),
        (torch.float16, "f16"),
        (torch.bfloat16, "bf16"),
        (torch.complex64, "f32"),
        (torch.complex128, "f64"),
    ],
)
def test_torch_tensors_are_viewed_without_a_copy(dtype, kind):
    x = torch.zeros(4, 6, dtype=dtype, requires_grad=True)
    flat = arrays.flatten(x)
    flat.data[:] = 1
    assert flat.kind == kind and flat.nbytes == x.element_size() * x.numel()
    assert x.detach().abs().to(torch.float64).min() > 0


@pytest.mark.parametrize(
    "x", [np.arange(4), np.array([True]), np.zeros(3, ">f8"), np.zeros(2, np.longdouble), 3.0, "x"]
)
def test_what_no_codec_can_carry_is_left_to_mpi(x):
    assert arrays.flatten(x) is None


def test_torch_integers_and_sparse_tensors_are_left_to_mpi():
    assert arrays.flatten(torch.arange(3)) is None
    assert arrays.flatten(torch.eye(3).to_sparse()) is None


def test_buffers_of_any_sort_are_viewed():
    from array import array

    memory = array("f", [1, 2, 3])
    assert arrays.flatten(memory).data.tolist() == [1, 2, 3]
    assert arrays.flatten(memoryview(memory)).kind == "f32"
    assert arrays.flatten(bytearray(8)) is None


def test_gaps_and_read_only_memory_are_refused_by_name():
    with pytest.raises(ValueError, match=r"grad is not contiguous \(shape \(5,\)"):
        arrays.flatten(np.zeros(10, np.float32)[::2], "grad")
    with pytest.raises(ValueError, match="grad is not contiguous.*use .contiguous()"):
        arrays.flatten(torch.zeros(3, 4).T, "grad")
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    assert arrays.flatten(x) is not None
    with pytest.raises(ValueError, match="grad is read-only"):
        arrays.flatten(x, "grad", writable=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_torch_and_numpy_have_the_same_wire(dtype):
    codec = mpicomp.codec("natural")
    x = torch.linspace(-3, 3, 1001, dtype=torch.float64).to(dtype)
    like = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if dtype is torch.bfloat16 else x.numpy()
    wire = codec.encode(x.requires_grad_(), seed=5)
    assert (wire == codec.encode(like, seed=5)).all()
    y = codec.decode(wire, like=x)
    assert isinstance(y, torch.Tensor) and y.dtype == dtype and y.shape == x.shape
    assert y.double().numpy() == pytest.approx(codec.decode(wire, like=like).astype(np.float64))


def test_overlap_is_found():
    x = np.zeros(10, np.float32)
    flat = arrays.flatten
    assert arrays.overlap(flat(x[:6]), flat(x[5:])) and not arrays.overlap(flat(x[:5]), flat(x[5:]))
    assert not arrays.overlap(flat(x[:0]), flat(x))


@pytest.mark.parametrize("lazy", [torch.Tensor.conj, torch._neg_view])
def test_what_torch_has_not_computed_yet_is_read_and_never_written(lazy):
    z = torch.arange(1.0, 9.0) * (1 + 2j)
    codec = mpicomp.codec("raw")
    wire = codec.encode(lazy(z))
    assert (wire == codec.encode(lazy(z).resolve_conj().resolve_neg())).all()
    out = torch.zeros(8, dtype=torch.complex64)
    with pytest.raises(ValueError, match="out is a conjugate that torch has not computed yet, and cannot be written"):
        codec.decode(wire, out=lazy(out))
    assert not out.any()
    assert (codec.decode(wire, like=lazy(z)) == lazy(z)).all()
    assert (mpicomp.allreduce(lazy(z), comm=MPI.COMM_SELF) == lazy(z)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_a_tensor_without_memory_is_refused(dtype):
    x = torch.empty(8, dtype=dtype, device="meta")
    for call in (
        lambda: mpicomp.codec("natural").encode(x),
        lambda: mpicomp.Comm(MPI.COMM_SELF).Allreduce(x, torch.empty(8)),
        lambda: mpicomp.Comm(MPI.COMM_SELF).Allreduce(MPI.IN_PLACE, [x]),
    ):
        with pytest.raises(ValueError, match="is on torch's device 'meta'; only 'cpu' and 'cuda' have memory"):
            call()
