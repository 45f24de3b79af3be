"""The random numbers: uniform, and independent between elements, ranks, calls, stages and seeds.

Seeds are fixed, so a test passes always or never; bounds are 5 standard errors or more where many cells are looked at.
A real battery was run once: docs/random-numbers.md.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mpicomp.reference.rng import GROUP, draws, draws64, groups, lanes, stream_key

N = 1 << 20
STREAMS = {
    "seeds": [stream_key(seed) for seed in range(64)],
    "calls": [stream_key(0, call=call) for call in range(64)],
    "ranks": [stream_key(0, rank=rank) for rank in range(64)],
    "stages": [stream_key(0, stage=stage) for stage in range(64)],
    "raw keys": list(range(64)),
    "raw high keys": [key << 58 for key in range(64)],
    "multiples of the counter's step": [key * 0x9E3779B97F4A7C15 % 2**64 for key in range(64)],
}
each_stream = pytest.mark.parametrize("keys", STREAMS.values(), ids=list(STREAMS))


def normal(draw):
    """Draws as numbers of mean 0 and variance 1."""
    return (draw.astype(np.float64) / 2**32 - 0.5) * np.sqrt(12)


def chi_square_z(counts):
    """How many standard deviations the chi-square of equally likely cells is from its mean."""
    expected = counts.sum() / counts.size
    return (((counts - expected) ** 2).sum() / expected - counts.size) / np.sqrt(2 * counts.size)


def distinct(x):
    """How many different values there are: np.unique(x).size in a tenth of the time."""
    x = np.sort(x, axis=None)
    return x.size and 1 + np.count_nonzero(x[1:] != x[:-1])


def test_the_stream_is_the_one_that_wires_were_made_with():
    assert [stream_key(0), stream_key(1, 2, 3, 4)] == [0xAB1876643294BFA3, 0x1601C57A565C4718]
    assert draws(4, stream_key(0)).tolist() == [0x4E5F596A, 0x28B170B0, 0xE8766D1A, 0xC1584134]
    assert draws(4, stream_key(0), first=1 << 40).tolist() == [0x62D0D145, 0xA844B0EA, 0x5EED1084, 0xBFA6D52B]
    assert draws64(2, stream_key(0)).tolist() == [0x4E5F596A9B026E51, 0x28B170B0A8AAA416]


def test_any_range_gives_the_same_numbers():
    whole = draws(1000, 77, first=128)
    assert np.array_equal(draws(300, 77, first=128 + 640), whole[640:940])
    assert np.array_equal(draws64(300, 77, first=128 + 640), draws64(1000, 77, first=128)[640:940])


def test_the_offset_is_added_modulo_the_range():
    offset = 0xDEADBEEF
    assert np.array_equal(draws(1000, 5, offset=offset), draws(1000, 5) + np.uint32(offset))
    assert np.array_equal(draws64(1000, 5, offset=offset), draws64(1000, 5) + np.uint64(offset << 32))


def test_a_draw_is_a_bijection_of_its_group_so_it_is_exactly_uniform():
    a = np.arange(1 << 16, dtype=np.uint32) * np.uint32(0x10001)
    same = np.full_like(a, 12345)
    for lane in (0, 1, 63):
        assert distinct(lanes(a, same).reshape(-1, GROUP)[:, lane]) == a.size
        assert distinct(lanes(same, a).reshape(-1, GROUP)[:, lane]) == a.size


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_bytes_are_uniform(shift):
    counts = np.bincount(draws(N, stream_key(1)) >> np.uint32(shift) & 255, minlength=256)
    assert abs(chi_square_z(counts)) < 5


def test_pairs_of_neighbours_are_uniform():
    x = (draws(4 * N, stream_key(2)) >> np.uint32(24)).astype(np.int64)
    for lag in (1, 2, 16, 63, 64, 65, 4096):
        assert abs(chi_square_z(np.bincount(x[:-lag] << 8 | x[lag:], minlength=65536))) < 5


def test_every_lane_is_uniform():
    x = draws(N, stream_key(3)).reshape(-1, GROUP) >> np.uint32(26)
    assert max(abs(chi_square_z(np.bincount(x[:, lane], minlength=64))) for lane in range(GROUP)) < 5


def test_there_is_no_serial_correlation():
    x = normal(draws(N, stream_key(4)))
    z = [x[:-lag] @ x[lag:] / np.sqrt(x.size - lag) for lag in [*range(1, 260), 512, 1024, 4096]]
    assert np.abs(z).max() < 5


def test_the_two_halves_of_a_wide_draw_are_independent():
    x = draws64(N, stream_key(5))
    high, low = (x >> np.uint64(32)).astype(np.uint32), x.astype(np.uint32)
    for lag in range(64):
        assert abs(normal(high[: N - lag]) @ normal(low[lag:])) / np.sqrt(N - lag) < 5
    cells = (high >> np.uint32(24)).astype(np.int64) << 8 | (low >> np.uint32(24))
    assert abs(chi_square_z(np.bincount(cells, minlength=65536))) < 5


@each_stream
def test_streams_are_not_correlated_at_any_lag(keys):
    x = np.stack([normal(draws(4096, key)) for key in keys])
    spectrum = np.fft.rfft(x, 8192)
    worst = 0.0
    for i, j in itertools.combinations(range(len(keys)), 2):
        worst = max(worst, np.abs(np.fft.irfft(spectrum[i] * spectrum[j].conj())).max())
    assert worst / np.sqrt(4096) < 7  # of 16 million lags: 5.7 is expected


@each_stream
def test_streams_share_no_more_values_than_chance_has_them_share(keys):
    x = np.concatenate([draws(16384, key) for key in keys])
    shared, expected = x.size - distinct(x), x.size * (x.size - 1) / 2 / 2**32
    assert abs(shared - expected) < 6 * np.sqrt(expected)


@each_stream
def test_no_stream_is_a_shifted_copy_of_another(keys):
    pairs = []
    for key in keys:
        x = draws(16384, key).astype(np.uint64)
        pairs.append(x[:-1] << np.uint64(32) | x[1:])
    everything = np.concatenate(pairs)
    assert distinct(everything) == everything.size


@each_stream
def test_groups_of_different_streams_are_different(keys):
    words = [groups(key, 0, 1 << 12) for key in keys]
    both = np.concatenate([a.astype(np.uint64) << np.uint64(32) | b for a, b in words])
    assert distinct(both) == both.size


def flips(x, y):
    """How often each of the 32 bits differs, in standard errors from one half."""
    changed = (x ^ y)[:, None] >> np.arange(32, dtype=np.uint32) & 1
    return np.abs(changed.mean(axis=0) - 0.5) * 2 * np.sqrt(x.size)


@pytest.mark.parametrize("bit", range(0, 64, 7))
def test_every_bit_of_the_key_flips_half_of_the_bits(bit):
    keys = np.random.default_rng(6).integers(0, 2**63, 1000).tolist()
    x = np.concatenate([draws(GROUP, key, 4096)[7:9] for key in keys])
    y = np.concatenate([draws(GROUP, key ^ 1 << bit, 4096)[7:9] for key in keys])
    assert flips(x, y).max() < 5


@pytest.mark.parametrize("bit", [*range(8), 13, 19, 26, 39])
def test_every_bit_of_the_index_flips_half_of_the_bits(bit):
    keys = np.random.default_rng(7).integers(0, 2**63, 1000).tolist()
    index = 21 ^ 1 << bit
    x = np.array([draws(GROUP, key)[21] for key in keys], np.uint32)
    y = np.array([draws(GROUP, key, index // 64 * 64)[index % 64] for key in keys], np.uint32)
    assert flips(x, y).max() < 5


def test_keys_of_different_words_are_different():
    grid = [stream_key(*words) for words in itertools.product(range(16), repeat=4)]
    assert len(set(grid)) == len(grid)
    assert len({stream_key(*words) for words in itertools.permutations((1, 2, 3, 4))}) == 24
    assert stream_key(-1) == stream_key(2**64 - 1)


@pytest.mark.parametrize("word", range(4))
def test_every_bit_of_a_word_flips_half_of_the_key(word):
    rng = np.random.default_rng(8)
    for bit in range(0, 64, 5):
        flipped = 0
        for _ in range(200):
            words = [int(v) for v in rng.integers(0, 2**63, 4)]
            other = [v ^ (1 << bit if i == word else 0) for i, v in enumerate(words)]
            flipped += bin(stream_key(*words) ^ stream_key(*other)).count("1")
        assert abs(flipped / 200 / 32 - 1) < 5 / np.sqrt(200 * 64)
