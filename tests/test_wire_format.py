"""The wire formats, guarded from version 0.1.0 on: frozen bytes, and every field where docs/wire-format.md says it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from common import DTYPES, bits, use_level

import mpicomp
from mpicomp import launch
from mpicomp.codecs import names

FILES = sorted((Path(__file__).parent / "fixtures").glob("*.npz"))


def load(path):
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


@pytest.fixture(params=["", "v1", "v3", "v4", "reference"])
def level(request, monkeypatch):
    use_level(monkeypatch, request.param)
    try:
        launch.kernel("natural_encode_f32")
    except ValueError:
        pytest.skip("this processor has no such level")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_frozen_wires_are_written_and_read_for_ever(level, path):
    frozen = load(path)
    codec, x = mpicomp.codec(str(frozen["spec"])), frozen["x"].view(DTYPES[str(frozen["kind"])])
    assert (codec.encode(x, seed=int(frozen["seed"])) == frozen["wire"]).all()
    assert (bits(codec.decode(frozen["wire"], like=x)) == frozen["decoded"]).all()


def test_every_codec_has_a_frozen_wire():
    assert {mpicomp.codec(str(load(path)["spec"])).name for path in FILES} == set(names())


def test_natural_has_exponents_then_signs_in_blocks_of_64():
    x = np.ldexp(np.where(np.arange(70) % 3, 1.0, -1.0), np.arange(70) - 30).astype(np.float32)
    wire = mpicomp.codec("natural").encode(x)
    signs = np.packbits(x < 0, bitorder="little")
    assert wire.size == 64 + 8 + 6 + 1
    assert (wire[:64] == np.arange(64) - 30 + 127).all() and (
        wire[64:72] == np.packbits(x[:64] < 0, bitorder="little")
    ).all()
    assert (wire[72:78] == np.arange(64, 70) - 30 + 127).all() and wire[78] == signs[8]


def test_zero_infinity_and_nan_have_codes_of_their_own():
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    assert mpicomp.codec("natural").encode(x).tolist() == [0, 0, 255, 255, 0, 0b11000]


def test_natural_of_float64_has_low_bytes_then_nibbles():
    x = np.array([1.0, -2.0, 2.0**-1022], np.float64)
    codes = [1023, 1024 | 1 << 11, 1]
    low, high = [c & 255 for c in codes], [c >> 8 for c in codes]
    assert mpicomp.codec("natural").encode(x).tolist() == [*low, high[0] | high[1] << 4, high[2]]


def test_natural_of_float16_has_nibbles_then_pairs_of_bits():
    x = np.array([1.0, -2.0, 4.0, -0.25, 0.5], np.float16)
    codes = [15, 16 | 1 << 5, 17, 13 | 1 << 5, 14]
    low, high = [c & 15 for c in codes], [c >> 4 for c in codes]
    expected = [low[0] | low[1] << 4, low[2] | low[3] << 4, low[4]]
    expected += [high[0] | high[1] << 2 | high[2] << 4 | high[3] << 6, high[4]]
    assert mpicomp.codec("natural").encode(x).tolist() == expected


def test_bfloat16_and_float32_share_the_natural_wire():
    x = np.ldexp(1.0, np.arange(-100, 100)).astype(DTYPES["bf16"])
    codec = mpicomp.codec("natural")
    assert (codec.encode(x) == codec.encode(x.astype(np.float32))).all()


def test_natural_of_8_bits_has_a_base_for_each_512_values():
    x = np.ones(600, np.float32)
    x[0], x[1], x[2], x[512] = 2.0**20, -(2.0**-20), 0.0, -8.0
    wire = mpicomp.codec("natural:bits=8").encode(x)
    assert wire.size == 600 + 2
    assert wire[0] == 127 + 20 and wire[1] == 127 and wire[2] == 128 | 127 - 40 and wire[3] == 0 and wire[4] == 107
    assert wire[513] == 127 + 3 and wire[514] == 128 | 127 and wire[515] == 124


def test_fp16_bf16_and_raw_are_plain_little_endian_numbers():
    x = np.array([1.0, -2.5, 1 / 3], np.float32)
    assert mpicomp.codec("raw").encode(x).tobytes() == x.astype("<f4").tobytes()
    assert mpicomp.codec("fp16").encode(x).tobytes() == x.astype("<f2").tobytes()
    assert mpicomp.codec("bf16").encode(x).tobytes() == x.astype(DTYPES["bf16"]).view("<u2").tobytes()
