"""Settings: arguments first, then MPICOMP_* variables, then defaults."""

from __future__ import annotations

import re

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp
from mpicomp import planning, settings


def test_defaults_are_natural_and_auto():
    made = settings.make()
    assert str(made.codec) == str(made.down) == "natural"
    assert (made.algorithm, made.seed, made.segment) == ("auto", 0, None)


def test_variables_come_before_defaults_and_arguments_before_variables(monkeypatch):
    for name, value in {"CODEC": "natural:bits=8", "ALGORITHM": "direct", "SEED": "5", "SEGMENT": "4096"}.items():
        monkeypatch.setenv(f"MPICOMP_{name}", value)
    made = settings.make()
    assert (str(made.codec), made.algorithm, made.seed, made.segment) == ("natural:bits=8", "direct", 5, 4096)
    made = settings.make("raw", "auto", 6, 8192)
    assert (str(made.codec), made.algorithm, made.seed, made.segment) == ("raw", "auto", 6, 8192)


def test_a_pair_of_codecs_is_up_and_down():
    made = settings.make(("natural", mpicomp.Raw()))
    assert (str(made.codec), str(made.down)) == ("natural", "raw")
    assert settings.make("bf16").down == mpicomp.BF16()


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("CODEC", "nope", "MPICOMP_CODEC: no codec named 'nope'"),
        ("ALGORITHM", "nope", "MPICOMP_ALGORITHM: no algorithm named 'nope' .known: auto, raw, direct"),
        ("SEED", "one", "MPICOMP_SEED: seed='one' must be a whole number"),
        ("SEED", "1.5", "MPICOMP_SEED: seed='1.5' must be a whole number"),
        ("SEGMENT", "-1", "MPICOMP_SEGMENT: segment=-1 must be at least 1"),
    ],
)
def test_wrong_variables_are_named(monkeypatch, name, value, words):
    monkeypatch.setenv(f"MPICOMP_{name}", value)
    with pytest.raises(ValueError, match=words):
        settings.make()


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("NUM_THREADS", "many", "MPICOMP_NUM_THREADS='many' must be a whole number"),
        ("NODES_OF", "x", "MPICOMP_NODES_OF='x' must be a whole number"),
        ("CHECK", "sometimes", "MPICOMP_CHECK='sometimes' must be one of first, always, never"),
        ("TIMEOUT", "soon", "MPICOMP_TIMEOUT='soon' must be a number of seconds"),
    ],
)
def test_other_wrong_variables_are_named_too(monkeypatch, name, value, words):
    alone = MPI.COMM_SELF.Dup()
    monkeypatch.setenv(f"MPICOMP_{name}", value)

    def use():
        comm, x = mpicomp.Comm(alone, "natural"), np.ones(1 << 20, np.float32)
        comm.codec.encode(x)
        comm.Allreduce(MPI.IN_PLACE, x)

    with pytest.raises(ValueError, match=re.escape(words)):
        use()
    monkeypatch.delenv(f"MPICOMP_{name}")
    alone.Free()


@pytest.mark.parametrize("wrong", [1.5, 2.0, "7", None, np.float32(3)])
def test_a_seed_is_a_whole_number_everywhere(wrong):
    x = np.ones(64, np.float32)
    words = f"seed={wrong!r} must be a whole number"
    for codec in (mpicomp.Natural(), mpicomp.Raw(), mpicomp.LowRank()):
        with pytest.raises(ValueError, match=re.escape(words)):
            codec.encode(x, seed=wrong)
    if wrong is not None:  # which is: not given
        with pytest.raises(ValueError, match=re.escape(words)):
            settings.make(seed=wrong)


def test_numpys_whole_numbers_are_as_good_as_pythons():
    made = settings.make(seed=np.int64(7), segment=np.uint32(4096))
    assert (type(made.seed), made.seed, type(made.segment), made.segment) == (int, 7, int, 4096)
    x = np.linspace(1, 3, 1000, dtype=np.float32)
    for seed in (7, -7):
        for whole in (np.int64(seed), np.int16(seed)):
            assert (mpicomp.Natural().encode(x, seed=whole) == mpicomp.Natural().encode(x, seed=seed)).all()


def test_small_messages_one_rank_and_raw_go_their_own_ways():
    def plan(n, p=4, **given):
        return planning.choose(settings.make(**given), n, "f32", p).algorithm

    assert plan(100) == "raw"
    assert plan(10_000_000) == "direct"
    assert plan(10_000_000, codec="raw") == "raw"
    assert plan(10_000_000, algorithm="raw") == "raw"
    assert plan(100, algorithm="direct") == "direct"
    assert plan(10_000_000, p=1) == "copy"


def test_what_mpi_cannot_add_is_never_left_to_it():
    for kind in ("f16", "bf16"):
        assert planning.choose(settings.make(), 10, kind, 4).algorithm not in ("raw", "copy")
        chosen = planning.choose(settings.make("natural:bits=8"), 10, kind, 4)
        assert chosen.algorithm not in ("raw", "copy") and str(chosen.settings.codec) == "raw"


def test_a_codec_that_cannot_carry_the_data_is_an_error_only_where_an_algorithm_was_asked_for():
    assert planning.choose(settings.make("natural:bits=8"), 1 << 20, "f64", 4).algorithm == "raw"
    with pytest.raises(mpicomp.CodecError, match="'natural:bits=8' cannot carry float64"):
        planning.choose(settings.make("natural:bits=8", "direct"), 1 << 20, "f64", 4)


def test_a_plan_says_what_and_why():
    text = str(planning.choose(settings.make("natural", "direct"), 1 << 20, "f32", 4))
    for word in ("1048576 values of float32", "4 ranks", "direct", "it was asked for", "bytes", "error"):
        assert word in text
