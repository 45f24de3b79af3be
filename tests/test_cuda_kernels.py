"""CUDA kernels give the bits of the C kernels: run from their source by g++, from the compiler's PTX, and on a GPU.

See emulation/README.md for what each of these can show.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EMULATION = Path(__file__).parent / "emulation"
sys.path.append(str(EMULATION))

import nvrtc  # noqa: E402


def run(*arguments, on_gpu=False, **variables):
    paths = [EMULATION.parent, EMULATION.parent.parent, *([] if on_gpu else [EMULATION / "standin"]), EMULATION]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **variables}
    command = [sys.executable, str(EMULATION / "same_bits.py"), *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


KINDS = "f32,f64,f16,bf16"
SPECS = [
    "natural",
    "natural:bits=8",
    "natural:rounding=nearest",
    "bf16",
    "natural-dithering",
    "natural-dithering:bits=8,block=64,p=inf,norm=natural",
    "dithering:bits=8,p=1",
    "dithering:bits=3,block=1088,norm=natural",
    "terngrad",
    "sign:block=128",
    "topk:ratio=0.05",
    "topk:ratio=0.03,block=128|natural",
    "randk:ratio=0.1,block=256",
    "lowrank",
    "raw",
    "fp16",
    "grid:bits=2",
    "grid:bits=4,step=0.3",
    "grid",
    "grid:bits=16",
]


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ to compile kernels for the CPU")
def test_kernels_run_from_their_source_give_the_bits_of_the_cpu():
    run("0,1,67,1000,3001", KINDS, *SPECS)


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ to compile kernels for the CPU")
def test_so_they_do_with_threads_in_any_order_and_a_single_block_that_goes_round_again():
    run("1300", KINDS, *SPECS, MPICOMP_TEST_ORDER="7", MPICOMP_TEST_BLOCKS="1")


@pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_kernels_run_as_compiled_ptx_give_the_bits_of_the_cpu():
    run("200", "f32,bf16", *SPECS, MPICOMP_TEST_KERNELS="ptx")  # the kinds whose sums have subnormals to flush


@pytest.mark.gpu
def test_kernels_on_a_gpu_give_the_bits_of_the_cpu():
    run("0,1,67,1000,3001,1000000", KINDS, *SPECS, on_gpu=True)
