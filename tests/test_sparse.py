"""topk, randk and chains: what they keep, how wrong they are, and what becomes of NaN; alone and in an Allreduce."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import mpicomp
from mpicomp import simulation
from mpicomp.arrays import flatten
from mpicomp.codecs import Stream
from mpicomp.errors import CodecError, WireError

SPARSE = ["topk", "topk:k=3,block=128", "randk", "randk:ratio=0.3,block=512", "topk:ratio=1", "randk:ratio=1"]
CHAINS = [
    "topk|natural",
    "randk:ratio=0.1|natural",
    "topk:block=512,ratio=0.1|natural:bits=8",
    "topk|bf16",
    "randk|fp16",
]
SIZES = [0, 1, 2, 63, 64, 65, 127, 511, 513, 65535, 65536, 65537, 131_072, 200_001]
DTYPES = ["f4", "f8", "f2"]
each_spec = pytest.mark.parametrize("spec", SPARSE + CHAINS)


def normal(n, seed=0, dtype="f4"):
    return np.random.default_rng(seed).standard_normal(n).astype(dtype)


@each_spec
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_length_round_trips_in_the_stated_number_of_bytes(spec, dtype):
    codec = mpicomp.codec(spec)
    if np.dtype(dtype).name not in [{"f32": "float32", "f64": "float64", "f16": "float16"}.get(k) for k in codec.kinds]:
        return
    for n in SIZES:
        x = normal(n, n, dtype)
        wire = codec.encode(x, seed=3)
        assert wire.size == codec.wire_size(n, dtype)
        out = codec.decode(wire, like=x)
        assert np.array_equal(out, codec.decode(wire.tobytes(), like=x))
        assert np.all((out != 0) <= (x != 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_topk_keeps_exactly_k_of_each_block(dtype):
    codec = mpicomp.codec("topk:ratio=0.01,block=1024")
    x = normal(5 * 1024 + 300, 1, dtype)
    out = codec.decode(codec.encode(x), like=x)
    assert [np.count_nonzero(out[at : at + 1024]) for at in range(0, x.size, 1024)] == [10, 10, 10, 10, 10, 3]
    assert np.array_equal(out[out != 0], x[out != 0])


def test_ratio_one_is_exact():
    for name in ("topk", "randk"):
        x = normal(70_001)
        codec = mpicomp.codec(f"{name}:ratio=1")
        assert np.array_equal(codec.decode(codec.encode(x), like=x), x)
        assert codec.omega(x.size) == 0


@pytest.mark.parametrize("spec", ["topk", "topk:ratio=0.1,block=512", "topk:k=1", "topk|natural", "topk|bf16"])
@pytest.mark.parametrize("n", [1, 100, 65_536, 70_000])
def test_topk_contracts(spec, n):
    codec = mpicomp.codec(spec)
    rng = np.random.default_rng(n)
    for x in (normal(n), rng.choice([-1.0, 1.0], n).astype("f4"), rng.standard_cauchy(n).astype("f4")):
        out = codec.decode(codec.encode(x), like=x).astype("f8")
        assert np.sum((out - x) ** 2) <= codec.omega(n) * np.sum(x.astype("f8") ** 2) * (1 + 1e-6)
    assert 0 <= codec.omega(n) < 1


@pytest.mark.parametrize(
    "spec", ["randk:ratio=0.1,block=128", "randk:ratio=0.1,block=128|natural", "randk:k=40,block=128"]
)
def test_randk_is_unbiased_with_the_stated_omega(spec):
    """4,000 encodings of the same values; each mean within 4 standard errors, but for as many as chance allows."""
    codec, x, trials = mpicomp.codec(spec), normal(300, 5), 4000
    first, second, error = np.zeros(x.size), np.zeros(x.size), []
    for seed in range(trials):
        out = codec.decode(codec.encode(x, seed=seed), like=x).astype("f8")
        first, second = first + out, second + out**2
        error.append(np.sum((out - x) ** 2) / np.sum(x.astype("f8") ** 2))
    mean = first / trials
    standard = np.sqrt((second / trials - mean**2) / trials)
    assert np.count_nonzero(np.abs(mean - x) > 4 * standard) <= 1  # 300 values at 6e-5 each
    assert abs((mean - x).sum()) < 4 * np.sqrt((standard**2).sum())
    spread = np.std(error) / trials**0.5
    assert np.mean(error) <= codec.omega(x.size) + 4 * spread
    if "|" not in spec:  # the last, short block has a rate of its own
        rates = [(128, codec.kept(128))] * 2 + [(44, codec.kept(44))]
        energy = [np.sum(x[at : at + 128].astype("f8") ** 2) for at in (0, 128, 256)]
        exact = sum(e * (m / k - 1) for e, (m, k) in zip(energy, rates)) / sum(energy)
        assert abs(np.mean(error) - exact) < 4 * spread


@pytest.mark.parametrize("spec", ["randk:ratio=0.25,block=64", "randk:ratio=0.25,block=64|natural"])
def test_randk_is_unbiased_through_an_allreduce_of_4_ranks(spec):
    """The same 192 values 300 times over, in 5 calls: each of their blocks is drawn anew."""
    xs, trials = [normal(192, rank) for rank in range(4)], 1500
    total = np.sum(xs, axis=0, dtype="f8")
    many = [np.tile(x, trials // 5) for x in xs]
    outs = np.concatenate([simulation.allreduce(many, codec=spec, call=call).arrays[0] for call in range(5)])
    outs = outs.reshape(trials, 192).astype("f8")
    error = np.sum((outs - total) ** 2, axis=1) / np.sum(total**2)
    mean, standard = outs.mean(axis=0), outs.std(axis=0) / trials**0.5
    assert np.count_nonzero(np.abs(mean - total) > 4 * standard) <= 1
    codec = mpicomp.codec(spec)
    spread = 4 * np.std(error) / trials**0.5
    # independent arrays of 192 values are not exactly orthogonal, so their sum is not exactly as large as they are
    energy = sum(np.sum(x.astype("f8") ** 2) for x in xs) / np.sum(total**2)
    inner = 1.0 if "|" not in spec else 1 + energy * (1 / 8 * 3 / 4) + 1 / 8 * (1 + energy / 8)
    assert np.mean(error) <= 4 * inner - 1 + spread
    if "|" not in spec:
        assert np.mean(error) == pytest.approx(codec.omega(192), abs=spread)  # thinned once, not twice


@pytest.mark.parametrize("spec", [*SPARSE, *CHAINS, ("topk", "natural"), ("natural", "randk")])
def test_every_rank_gets_the_same_bits_whatever_the_segments(spec):
    xs = [normal(150_001, rank) for rank in range(3)]
    results = [simulation.allreduce(xs, codec=spec, segment=size).arrays for size in (None, 1 << 12, 1 << 19)]
    assert len({out.tobytes() for arrays in results for out in arrays}) == 1


@pytest.mark.parametrize("name", ["topk", "randk"])
def test_seeds_choose_for_randk_alone(name):
    codec, x = mpicomp.codec(f"{name}:ratio=0.1"), normal(10_000)
    kept = [np.flatnonzero(codec.decode(codec.encode(x, seed=seed), like=x)) for seed in (1, 1, 2)]
    assert np.array_equal(kept[0], kept[1])
    assert np.array_equal(kept[0], kept[2]) == (name == "topk")


def test_all_ranks_of_randk_keep_the_same_values_and_new_ones_in_each_call():
    xs = [normal(70_000, rank) for rank in range(4)]
    outs = [simulation.allreduce(xs, codec="randk:ratio=0.1", call=call).arrays[0] for call in (0, 1)]
    kept = [np.flatnonzero(out) for out in outs]
    assert kept[0].size == kept[1].size == 7000 and not np.array_equal(*kept)
    exact = np.sum(xs, axis=0)
    assert np.allclose(outs[0][kept[0]], 10 * exact[kept[0]], rtol=2e-3, atol=1e-3)


@each_spec
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf_never_become_finite(spec, value, dtype):
    codec = mpicomp.codec(spec)
    if np.dtype(dtype).name not in [{"f32": "float32", "f64": "float64", "f16": "float16"}.get(k) for k in codec.kinds]:
        return
    for places in ([0], [77_000], [5, 66_000, 70_000], range(0, 2000)):
        x = normal(80_000, 1, dtype)
        x[list(places)] = value
        out = codec.decode(codec.encode(x, seed=2), like=x)
        assert not np.any(np.isfinite(out[list(places)]))


@each_spec
def test_nan_on_one_rank_reaches_all(spec):
    xs = [normal(140_000, rank) for rank in range(3)]
    xs[1][70_001] = np.nan
    for out in simulation.allreduce(xs, codec=spec).arrays:
        assert np.isnan(out[70_001]) and np.all(np.isfinite(out[131_072:]))


def test_wires_of_the_wrong_length_or_with_bad_indices_are_refused():
    codec, x = mpicomp.codec("topk:k=2,block=128"), normal(128)
    wire = codec.encode(x)
    with pytest.raises(WireError):
        codec.decode(wire[:-1], like=x)
    wire[8:10] = 0xFF  # the two indices
    with pytest.raises(WireError, match="indices"):
        codec.decode(wire, like=x)


def test_randk_wires_of_different_seeds_are_not_summed():
    from mpicomp.codecs import Stream
    from mpicomp.codecs.base import Terms

    codec, x = mpicomp.codec("randk:ratio=0.1"), normal(1000)
    wires = [codec.encode(x, seed=seed) for seed in (1, 2)]
    with pytest.raises(WireError, match="one seed"):
        codec.reduce_into(Terms(wires, 0, None, 1000, "f32"), 1.0, np.empty_like(wires[0]), Stream(1))


@pytest.mark.parametrize("spec", [*SPARSE, *CHAINS])
def test_specs_and_objects_are_the_same_codec(spec):
    codec = mpicomp.codec(spec)
    assert mpicomp.codec(str(codec)) == codec == eval(repr(codec), vars(mpicomp))
    assert hash(codec) == hash(mpicomp.codec(str(codec)))
    assert mpicomp.codec(str(codec)) != mpicomp.codec("topk:ratio=0.5")


def test_chains_are_written_first_applied_first():
    codec = mpicomp.codec("topk:ratio=0.02|natural:bits=8")
    assert codec == mpicomp.Chain(mpicomp.TopK(ratio=0.02), mpicomp.Natural(bits=8))
    assert str(codec) == "topk:ratio=0.02|natural:bits=8"
    assert codec.kinds == ("f32",) and not codec.unbiased
    both = mpicomp.codec("randk:ratio=0.25|natural")
    assert both.unbiased and both.omega(65536) == pytest.approx(4 * 9 / 8 - 1)


@pytest.mark.parametrize(
    "spec, reason",
    [
        ("natural|topk", "only topk and randk"),
        ("raw|natural", "only topk and randk"),
        ("topk|raw", "raw already"),
        ("topk|randk", "smaller ratio"),
        ("topk|natural|natural", "two codecs"),
        ("topk:block=64|natural:bits=8", "multiple of the 512"),
        ("topk:ratio=0", "above 0"),
        ("topk:ratio=1.5", "at most 1"),
        ("randk:k=5,ratio=0.5", "not both"),
        ("randk:block=100", "multiple of 64"),
        ("randk:block=131072", "at most 65536"),
        ("topk:k=-1", "from 1"),
        ("topk|", "no codec named"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(spec, reason):
    with pytest.raises(CodecError, match=reason):
        mpicomp.codec(spec)


def test_zstd_codes_a_chain_and_is_no_part_of_one():
    pytest.importorskip("zstandard")
    natural, topk = mpicomp.Natural(), mpicomp.TopK()
    with pytest.raises(CodecError, match="a whole chain"):
        mpicomp.Chain(topk, mpicomp.Zstd(natural))
    whole = mpicomp.Zstd(mpicomp.Chain(topk, natural))
    assert mpicomp.codec("topk|natural|zstd") == mpicomp.codec(str(whole)) == whole


FROZEN = {  # spec: the wire of 8 values, and a digest of that of 100,000
    "topk:k=3,block=64": ("0000c0c00000e040000000c1f5010000", "22ab9c2771fee35c"),
    "randk:k=3,block=64": ("0000803f000000c00000c0c011001ec02bada27d00000000", "531a617ee1cfd1ed"),
    "topk:k=3,block=64|natural": ("82828205f5010000", "9da9dedfe3345ffb"),
    "randk:k=3,block=64|natural": ("7f80810611001ec02bada27d00000000", "5070867701a29a55"),
}


@pytest.mark.parametrize("spec", FROZEN)
def test_wires_are_what_they_always_were(spec):
    codec = mpicomp.codec(spec)
    small = np.array([1, -2, 3, -4, 5, -6, 7, -8], "f4")
    large = (np.arange(100_000) * 7919 % 100_003 - 50_000).astype("f4")
    digest = hashlib.blake2b(codec.encode(large, seed=7).tobytes(), digest_size=8).hexdigest()
    assert (codec.encode(small, seed=7).tobytes().hex(), digest) == FROZEN[spec]


@each_spec
@pytest.mark.parametrize("n", [1, 65, 1000, 65537])
def test_a_wire_does_not_depend_on_what_its_memory_held_before(spec, n):
    each, x = mpicomp.codec(spec), np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    wires = [np.full(each.wire_size(n), before, np.uint8) for before in (0, 255)]
    for wire in wires:
        each.encode_into(flatten(x), wire, Stream(5))
    np.testing.assert_array_equal(*wires)
