"""Hostile bytes: whatever arrives, a decoder ends with values or with a WireError, and within its buffers.

`make fuzz` does the same to every kernel, millions of times.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
from common import DTYPES, SPECS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mpicomp
from mpicomp import launch

SPARSE = [
    "topk:ratio=0.1,block=128",
    "randk:k=5,block=64",
    "topk:ratio=0.2,block=128|natural",
    "randk|fp16",
    "grid:bits=2",
]
CARRIED = [(spec, kind) for spec in SPECS + SPARSE for kind in mpicomp.codec(spec).kinds]
GUARD = 64  # values and bytes on both sides of what a decoder may touch
hostile = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@st.composite
def wires(draw):
    """(codec, kind, n, bytes): an encoded array that was cut, extended, flipped and overwritten, or noise."""
    spec, kind = draw(st.sampled_from(CARRIED))
    codec, n = mpicomp.codec(spec), draw(st.one_of(st.integers(0, 200), st.sampled_from([511, 512, 513, 1025])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.standard_normal(n).astype(DTYPES[kind])
    wire = codec.encode(x, seed=draw(st.integers(0, 99)))
    if draw(st.booleans()):
        wire = rng.integers(0, 256, wire.size).astype(np.uint8)
    for at in draw(st.lists(st.integers(0, max(wire.size - 1, 0)), max_size=8)) if wire.size else ():
        wire[at] ^= draw(st.sampled_from([1, 2, 128, 255]))
    change = draw(st.sampled_from([0, 0, 0, -1, 1, 7, -wire.size]))
    wire = wire[: max(wire.size + change, 0)] if change < 0 else np.append(wire, np.zeros(change, np.uint8))
    return codec, kind, n, wire


@hostile
@given(wires())
def test_any_wire_is_decoded_or_refused_and_nothing_else_is_touched(hostile_wire):
    codec, kind, n, wire = hostile_wire
    out = np.zeros(n + 2 * GUARD, DTYPES[kind])
    try:
        codec.decode(wire.copy(), out=out[GUARD : GUARD + n])
    except mpicomp.WireError:
        pass
    else:
        assert wire.size == codec.wire_size(n, DTYPES[kind])
    assert not out[:GUARD].any() and not out[GUARD + n :].any()


@hostile
@given(st.text(alphabet="natural:bits=8,|topkrdmioe0123456789.-", max_size=40))
def test_any_spec_is_a_codec_or_a_codec_error(spec):
    try:
        codec = mpicomp.codec(spec)
    except mpicomp.CodecError:
        return
    assert mpicomp.codec(str(codec)) == codec


def test_no_bytes_lead_a_kernel_astray(tmp_path):
    """The kernels of the level that this machine uses, with sanitizers, and the program that attacks them."""
    library = launch._library()
    if library is None or not shutil.which("cc"):
        pytest.skip("no C compiler")
    path = Path(__file__).parent / "fuzz" / "__main__.py"
    spec = importlib.util.spec_from_file_location("fuzz_kernels", path)
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    try:
        built = fuzz.build(tmp_path, (library.mc_cpu_level(),), "-O0")
    except RuntimeError as error:
        if "asan" in str(error) or "ubsan" in str(error):
            pytest.skip("the compiler has no sanitizers")
        raise
    for codec in fuzz.CODECS:
        assert fuzz.run(*built, codec, 2000, 7) == f"{codec}: 2000 inputs, nothing found"
