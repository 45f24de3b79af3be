"""The lossless stage: what it writes, what it refuses to read, and what schedules make of wires of any length."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import mpicomp
from mpicomp import prediction, simulation
from mpicomp.codecs.zstd import BLOCK
from mpicomp.schedules import ALLREDUCE

CODECS = ["natural", "natural:bits=8", "qsgd:bits=4", "topk:ratio=0.01|natural", "randk:ratio=0.1", "raw", "sign"]
NATURAL = ("natural", "natural")
SIZES = [0, 1, 77, 5003, 300_001]
FROZEN = (  # natural|zstd of 64 times 1, 64 times 2, 4, -8: other versions of Zstandard may write other bytes, all read these
    "3d000000000000002d0000000000000028b52ffd642000fd0000807f7f008000810082ffffffffffffffff07100094921d25cb84f23236a90d051b089f"
)


def normal(n, seed=0, dtype="f4"):
    return np.random.default_rng(seed).standard_normal(n).astype(dtype)


def bits(x):
    return x.tobytes()


@pytest.mark.parametrize("spec", CODECS)
def test_it_changes_no_value_and_no_promise(spec):
    plain, coded = mpicomp.codec(spec), mpicomp.codec(f"{spec}|zstd")
    for n in SIZES:
        x = normal(n)
        wire = coded.encode(x, seed=5)
        assert bits(coded.decode(wire, like=x)) == bits(plain.decode(plain.encode(x, seed=5), like=x))
        assert wire.size <= coded.wire_size(n) <= plain.wire_size(n) + 16 + 4 * (n // 10_000)
        assert (coded.omega(n), coded.noise(n), coded.omegas(n)) == (plain.omega(n), plain.noise(n), plain.omegas(n))
    for promise in ("unbiased", "bounded", "correlated", "shared", "dense", "grain", "kinds"):
        assert getattr(coded, promise) == getattr(plain, promise)
    assert mpicomp.codec(str(coded)) == coded and eval(repr(coded), vars(mpicomp)) == coded


def test_natural_takes_half_its_bits_and_the_expected_length_is_close():
    x = normal(1 << 20)
    for spec, most in {"natural|zstd": 4.3, "natural:bits=8|zstd": 3.8, "qsgd:bits=4|zstd": 1.8}.items():
        codec = mpicomp.codec(spec)
        wire = codec.encode(x, seed=1)
        assert 8 * wire.size / x.size < most
        assert codec.expected(x.size, "f32") == pytest.approx(wire.size, rel=0.02)


def test_frozen_wires_are_read_for_ever():
    codec, x = mpicomp.codec("natural|zstd"), np.repeat(np.float32([1, 2, 4, -8]), 64)
    assert bits(codec.decode(bytes.fromhex(FROZEN), like=x)) == bits(x)
    stored = bytes([18, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, *mpicomp.codec("natural").encode(x[64:65])])
    assert codec.encode(x[64:65]).tobytes() == stored and codec.decode(stored, like=x[:1]) == [2]


def test_levels_and_threads_give_the_same_values(monkeypatch):
    x = normal(700_001)
    found = []
    for spec, threads in {"natural|zstd": "1", "natural|zstd:level=1": "3", "natural|zstd:level=3": "1"}.items():
        monkeypatch.setenv("MPICOMP_NUM_THREADS", threads)
        codec = mpicomp.codec(spec)
        assert str(codec) == spec
        found.append(bits(codec.decode(codec.encode(x, seed=1), like=x)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "spec, reason",
    {
        "zstd": "comes last",
        "zstd|natural": "comes last",
        "natural|zstd|topk": "comes last",
        "natural|zstd|zstd": "coded already",
        "lowrank|zstd": "summed as they are",
        "natural|zstd:level=23": "from 0 to 22",
        "natural|zstd:inner=raw": "no setting 'inner'",
        "natural|zst": "did you mean 'zstd'",
    }.items(),
)
def test_nonsense_is_refused_with_the_reason(spec, reason):
    with pytest.raises(mpicomp.CodecError, match=reason):
        mpicomp.codec(spec)


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(mpicomp.CodecError, match=r"pip install 'mpicomp\[zstd\]'"):
        mpicomp.codec("natural|zstd")


def test_whatever_bytes_come_it_is_a_wire_or_an_error():
    """Cut, prolonged, of another length, changed in any byte: no other exception, and no memory beyond the inner wire."""
    codec, x = mpicomp.codec("natural|zstd"), normal(2 * BLOCK)
    wire, rng = codec.encode(x, seed=1), np.random.default_rng(1)
    for bad in (wire[:0], wire[:7], wire[:-1], wire[: wire.size // 2], np.append(wire, wire[:1])):
        with pytest.raises(mpicomp.WireError):
            codec.decode(bad, like=x)
    with pytest.raises(mpicomp.WireError):
        codec.decode(wire, like=x[:-64])
    for at in (*range(40), *rng.integers(40, wire.size, 60)):  # the frames have checksums
        bad = wire.copy()
        bad[at] ^= 1 << rng.integers(8)
        with pytest.raises(mpicomp.WireError):
            codec.decode(bad, like=x)
    for n in (8, 16, 40, 1000):
        with pytest.raises(mpicomp.WireError):
            codec.decode(rng.integers(0, 256, n, np.uint8), like=x)


def test_a_frame_that_would_unfold_to_more_is_refused():
    import zstandard

    codec, x = mpicomp.codec("natural|zstd"), np.zeros(1000, "f4")
    silent = zstandard.ZstdCompressor(write_content_size=False)
    skipped = np.array([0x184D2A50, 1125], "<u4").tobytes()  # a frame that holds nothing, and says that it is as long
    for bad in (zstandard.compress(bytes(1 << 24)), silent.compress(bytes(1125)), skipped + bytes(500)):
        wire = np.array([16 + len(bad), len(bad)], "<u8").tobytes() + bad
        with pytest.raises(mpicomp.WireError, match="where one of 1125 belongs|zstd: "):
            codec.decode(wire, like=x)


@pytest.mark.parametrize("algorithm", [*ALLREDUCE, "hierarchical:nodes_of=2"])
def test_every_schedule_gives_the_bits_that_it_gives_without(algorithm):
    for p, n, codec in (
        (1, 77, NATURAL),
        (2, 1, NATURAL),
        (3, 5003, NATURAL),
        (7, 5003, ("topk:block=256|natural", "bf16")),
    ):
        xs = [normal(n, rank) for rank in range(p)]
        plain = simulation.allreduce(xs, codec=codec, algorithm=algorithm, segment=16384)
        coded = simulation.allreduce(xs, codec=[f"{spec}|zstd" for spec in codec], algorithm=algorithm, segment=16384)
        assert {bits(x) for x in coded.arrays} == {bits(plain.arrays[0])}


def test_the_simulator_counts_what_travels_and_predictions_come_close():
    xs = [normal(1 << 18, rank) for rank in range(4)]
    for algorithm in ("direct", "ring", "halving"):
        found = simulation.allreduce(xs, codec="natural|zstd", algorithm=algorithm)
        expected = prediction.allreduce(xs[0].size, 4, "natural|zstd", algorithm)
        assert max(found.bytes_sent) == pytest.approx(expected.sent, rel=0.02)
        assert found.seconds == pytest.approx(expected.seconds, rel=0.02)
        plain = simulation.allreduce(xs, codec="natural", algorithm=algorithm)
        assert max(found.bytes_sent) < 0.5 * max(plain.bytes_sent)
