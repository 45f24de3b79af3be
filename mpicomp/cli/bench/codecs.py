"""mpicomp bench codecs: how fast each codec is in memory, as a ratio to memcpy of the same values."""

from __future__ import annotations

import argparse
import ctypes
from typing import Any, Callable

import numpy as np

from ... import launch
from ...codecs import Stream, codec
from ...codecs.base import Codec
from ...tuning import parse_size
from ..timing import Table, alternate, size

CODECS = ["raw", "fp16", "bf16", "natural", "natural:bits=8", "natural:rounding=nearest"]
HEADS = {"codec": 26, "bits": 6, "encode GB/s": 11, "x memcpy": 9, "decode GB/s": 11, "x memcpy ": 9}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codecs", nargs="*", default=CODECS, help=f"specs ({' '.join(CODECS)})")
    parser.add_argument("--size", type=parse_size, default=parse_size("64MB"), help="bytes of float32 values (64MB)")
    parser.add_argument("--runs", type=int, default=11, help="runs of which the median counts (11)")


def run(arguments: argparse.Namespace) -> None:
    print(f"{size(arguments.size)} of float32, {launch.threads()} thread(s), kernels: {launch.describe()}\n")
    table = Table(HEADS)
    x = np.random.default_rng(0).standard_normal(arguments.size // 4, dtype=np.float32)
    out = np.ones_like(x)
    for each in map(codec, arguments.codecs):
        table.doing(str(each))
        times = alternate(_jobs(each, x, out), arguments.runs)
        table.doing()
        speed = {name: f"{x.nbytes / value / 1e9:.2f}" for name, value in times.items()}
        ratio = {name: f"{times['memcpy'] / value:.2f}" for name, value in times.items()}
        bits = f"{8 * each.wire_size(x.size) / x.size:.4g}"
        table.line(each, bits, speed["encode"], ratio["encode"], speed["decode"], ratio["decode"])


def _jobs(each: Codec, x: np.ndarray, out: np.ndarray) -> dict[str, Callable[[], Any]]:
    """memcpy, encode and decode on memory that was touched before, as in a collective."""
    wire = np.ones(each.wire_size(x.size), np.uint8)
    given, result = each._flatten(x, "x"), each._flatten(out, "out")
    each.encode_into(given, wire, Stream(0))
    return {
        "memcpy": lambda: ctypes.memmove(out.ctypes.data, x.ctypes.data, x.nbytes),
        "encode": lambda: each.encode_into(given, wire, Stream(1)),
        "decode": lambda: each.decode_into(wire, result),
    }
