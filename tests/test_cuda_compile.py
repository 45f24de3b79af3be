"""Every CUDA kernel compiles with NVIDIA's compiler and CuPy's options, for old and new GPUs, without spilling registers.

The compiler comes from PyPI and needs no GPU: see emulation/README.md for what this can show.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "emulation"))

import nvrtc  # noqa: E402

from mpicomp import device  # noqa: E402

EXACT = "--fmad=false"


@pytest.mark.parametrize(
    "architecture, options, major",
    [("sm_75", (), ""), ("sm_120", ("-DMC_KIND=f32",), ""), ("sm_70", ("-DMC_KIND=f32",), "12")],
    ids=["sm_75", "sm_120", "sm_70"],
)
def test_every_kernel_compiles_without_spills(architecture, options, major):
    if nvrtc.library(major) is None:
        pytest.skip(f"no NVRTC{' of CUDA 12' if major else ''} (pip install nvidia-cuda-nvrtc{major and '-cu12'})")
    for name in device.FILES:
        ptx, binary, log = nvrtc.compile(
            device.source(name), architecture, EXACT, "--ptxas-options=-v", *options, major=major
        )
        assert re.findall(r"\.entry mc_", ptx) and binary
        assert set(re.findall(r"(\d+) bytes spill", log)) == {"0"}, log
        assert " fma.rn" not in ptx.replace("\t", " "), f"{name} has fused multiply-adds"


def test_sources_name_no_header_that_the_compiler_would_have_to_find():
    for name in device.FILES:
        assert not re.findall(r'#include "', device.source(name))


def test_a_mistake_is_shown_with_the_words_of_the_compiler():
    if nvrtc.library() is None:
        pytest.skip("no NVRTC (pip install nvidia-cuda-nvrtc)")
    with pytest.raises(RuntimeError, match="unknown_function"):
        nvrtc.compile('extern "C" __global__ void f(int *a) { a[0] = unknown_function(); }', "sm_80")
