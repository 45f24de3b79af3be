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
from mpicomp.arrays import KINDS  # noqa: E402

CUPYS = "-std=c++17", "--fmad=false"  # what mpicomp gives to CuPy


def has_kinds(name):
    return "FOR_KINDS(" in (device.folder() / "cuda" / f"{name}.cu").read_text()


@pytest.mark.parametrize(
    "architecture, kind, major",
    [*(("sm_75", kind, "") for kind in KINDS), ("sm_120", "f32", ""), ("sm_70", "f32", "12")],
)
def test_every_kernel_compiles_without_spills(architecture, kind, major):
    if nvrtc.library(major) is None:
        pytest.skip(f"no NVRTC{' of CUDA 12' if major else ''} (pip install nvidia-cuda-nvrtc{major and '-cu12'})")
    for name in device.FILES:
        if kind != "f32" and not has_kinds(name):
            continue  # all that is in it was compiled with float32's
        ptx, binary, log = nvrtc.compile(device.source(name), architecture, *CUPYS, f"-DMC_KIND={kind}", major=major)
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
