"""The host side of GPU support, as far as one process can show it. With real ranks: tests/mpi/test_device.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpicomp.cli import main
from mpicomp.ports.cuda_aware import cuda_aware

STANDIN = Path(__file__).parent / "emulation" / "standin"


def python(code: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, env=environment).stdout


def test_gpu_input_without_cupy_is_an_error_that_says_what_to_install_and_with_it_tensors_are_used_in_place():
    """A tensor that only says that it is on a GPU stands for one that is."""
    if find_spec("torch") is None:
        pytest.skip("no torch")
    code = """
import sys; sys.modules["cupy"] = None
import torch, mpicomp
from mpi4py import MPI
comm = mpicomp.Comm(MPI.COMM_SELF)
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    x, n = torch.empty(3, device="cuda"), torch.empty(3, device="cuda", dtype=torch.int32)
for call in (lambda: mpicomp.codec("natural").encode(x), lambda: mpicomp.allreduce(x), lambda: comm.Allreduce(n, n)):
    try:
        call()
    except mpicomp.CodecError as error:
        print(error)
"""
    said = python(code + TENSORS, STANDIN=str(STANDIN), MPICOMP_TEST_KERNELS="c").splitlines()
    assert len(said) == 3 and all("pip install 'mpicomp[cuda13]'" in line for line in said)


TENSORS = """
# In the same process, since importing torch takes long: with CuPy's stand-in, and tensors of the CPU for those of a GPU
import os
from mpicomp import arrays
del sys.modules["cupy"]
sys.path.insert(0, os.environ["STANDIN"])
import cupy
arrays._from_torch = cupy.from_dlpack
for dtype in (torch.float32, torch.bfloat16, torch.complex64):
    x, out = torch.arange(1.0, 5).to(dtype), torch.zeros(4, dtype=dtype)
    comm.Allreduce(x, out, codec="natural", algorithm="direct")
    assert not out.any()
    cupy.cuda.get_current_stream().synchronize()
    assert (out == x).all(), (x, out)  # in the memory of the tensor itself
"""


def test_the_benchmark_of_kernels_runs_where_a_stand_in_is_for_the_gpu():
    code = (
        "import sys; from mpicomp.__main__ import main; sys.argv[1:] = 'bench codecs natural topk:ratio=0.01|natural "
        "--device cuda --data normal --size 256K -n 2 --format json'.split(); main()"
    )
    said = json.loads(python(code, PYTHONPATH=str(STANDIN), MPICOMP_TEST_KERNELS="c"))
    assert "not a GPU" in said["device"] and len(said["rows"]) == 2 * 4
    for row in said["rows"]:
        assert row["gbs"] > 0 and row["copy"] > 0
    limits = {row["kernel"]: row["limit"] for row in said["rows"] if row["codec"] == "natural"}
    assert limits["encode"] == limits["decode"] == pytest.approx(8 / (4 + 9 / 8), rel=1e-3)


def test_the_benchmark_of_kernels_says_where_there_is_no_gpu(monkeypatch):
    def missing():
        raise RuntimeError("no driver")

    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(getDevice=missing, getDeviceProperties=None)))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(SystemExit, match=r"no GPU that CuPy can use \(no driver\)"):
        main(["bench", "codecs", "natural", "--device", "cuda"])


def test_whether_mpi_is_cuda_aware_can_be_overruled(monkeypatch):
    monkeypatch.setenv("MPICOMP_CUDA_AWARE", "1")
    assert cuda_aware() is True
    monkeypatch.setenv("MPICOMP_CUDA_AWARE", "0")
    assert cuda_aware() is False
    monkeypatch.delenv("MPICOMP_CUDA_AWARE")
    assert cuda_aware() in (True, False)  # whatever the library says, it says something
    monkeypatch.setenv("MPICOMP_CUDA_AWARE", "yes")
    with pytest.raises(ValueError, match="MPICOMP_CUDA_AWARE='yes' must be 0 or 1"):
        cuda_aware()


def test_in_the_stand_in_nothing_is_done_before_somebody_waits():
    code = """
import cupy, cupyx, numpy as np
a, host = cupy.ones(4, np.uint8), cupyx.empty_pinned(4, np.uint8)
a.get(out=host, blocking=False)
assert (host == cupy.POISON).all()
with cupy.cuda.Stream() as other:
    b = a + a
other.synchronize()
assert (b.get(stream=other) != 2).all()
cupy.cuda.get_current_stream().synchronize()
assert (host == 1).all()
"""
    python(code, PYTHONPATH=str(STANDIN))


def test_device_memory_is_kept_from_an_mpi_that_is_not_cuda_aware():
    code = "import cupy; from mpi4py import MPI; MPI.COMM_SELF.Isend(cupy.ones(4), 0)"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        python(code, PYTHONPATH=str(STANDIN), MPICOMP_CUDA_AWARE="0")
    assert "expecting buffer" in caught.value.stderr  # mpi4py finds nothing that it could take
    assert not python(code, PYTHONPATH=str(STANDIN), MPICOMP_CUDA_AWARE="1")
