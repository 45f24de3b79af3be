"""Settings: arguments first, then MPICOMP_* variables, then defaults."""

from __future__ import annotations

import pytest

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
        ("CODEC", "nope", "no codec named 'nope'"),
        ("ALGORITHM", "nope", "no algorithm named 'nope' .known: auto, raw, direct"),
        ("SEED", "one", "seed='one' must be a whole number"),
        ("SEGMENT", "-1", "segment='-1' must be at least 1"),
    ],
)
def test_wrong_variables_are_named(monkeypatch, name, value, words):
    monkeypatch.setenv(f"MPICOMP_{name}", value)
    with pytest.raises(ValueError, match=words):
        settings.make()


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
