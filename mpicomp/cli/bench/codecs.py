"""mpicomp bench codecs: bits, error and speed of each codec in memory, speed as a ratio to memcpy of the same values.

The error is |decoded - x| / |x|, beside it the codec's bound on its rms, sqrt(omega).
"""

from __future__ import annotations

import argparse
import ctypes
from importlib.util import find_spec
from itertools import product
from typing import Any, Callable, Optional

import numpy as np

from ... import __version__, launch
from ...codecs import Stream, Zstd, codec
from ...codecs.base import Codec
from .. import numbers
from ..timing import alternate, size
from . import device, options, peers, plots
from .data import describe, values
from .report import Bar, Column, Report, digits

CODECS = [
    "raw",
    "fp16",
    "bf16",
    "natural",
    "natural:bits=8",
    "natural:rounding=nearest",
    "natural-dithering:bits=2",
    "natural-dithering:bits=4",
    "natural-dithering:bits=8",
    "qsgd:bits=2",
    "qsgd:bits=4",
    "qsgd:bits=8",
    "terngrad",
    "sign",
    "topk:ratio=0.01",
    "topk:ratio=0.01|natural",
    "randk:ratio=0.01",
    "randk:ratio=0.01|natural",
    *(["natural|zstd", "natural:bits=8|zstd", "qsgd:bits=4|zstd"] if find_spec("zstandard") else []),
]
DATA = ["normal", "heavy", "gradient"]
COLUMNS = {
    "codec": Column("codec", 26),
    "data": Column("data", 9),
    "size": Column("size", 8, size),
    "bits": Column("bits", 6, digits(3)),
    "error": Column("error", 8, digits(3)),
    "bound": Column("bound", 6, digits(3)),
    "encode_gbs": Column("encode GB/s", 11, digits(3)),
    "encode": Column("x memcpy", 8, digits(3)),
    "decode_gbs": Column("decode GB/s", 11, digits(3)),
    "decode": Column("x memcpy", 8, digits(3)),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codecs", nargs="*", metavar="CODEC", help="codecs (one or more of each kind)")
    parser.add_argument("--codec", action="append", metavar="SPEC", help="more codecs; repeated, or a comma list")
    parser.add_argument(
        "--data",
        action="append",
        metavar="KIND",
        help="normal, heavy, sparse, gradient or a file (the first two, gradient)",
    )
    options.add_sizes(parser)
    parser.add_argument(
        "--size", type=numbers.size, action="append", dest="sizes", help="bytes of float32 values (64MB)"
    )
    parser.set_defaults(minbytes=None)
    options.add_turns(parser, 11, 1)
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="cuda: each kernel on the GPU, against a copy there"
    )
    parser.add_argument("--compare", action="store_true", help="also zfp (zfpy) and blosc2, where they are installed")
    options.add_output(parser, ("table", "csv", "json"))


def run(arguments: argparse.Namespace) -> None:
    plots.check(arguments)
    kinds = options.split(arguments.data) or DATA
    chosen: list[Any] = [codec(spec) for spec in options.codecs(arguments, CODECS)]
    sizes = options.sizes(arguments)
    if arguments.device == "cuda":
        return device.run(arguments, [each for each in chosen if not isinstance(each, Zstd)], kinds, sizes)
    others, notes = peers.codecs() if arguments.compare else ([], [])
    facts = {
        "mpicomp": f"{__version__} bench codecs",
        "values": f"{', '.join(map(size, sizes))} of float32, {launch.threads()} thread(s), kernels: {launch.describe()}",
        **{f"data {kind}": describe(kind) for kind in kinds},
    }
    report = Report(COLUMNS, facts, arguments)
    for note in notes:
        report.note(note)
    bar = Bar(len(kinds) * len(sizes) * len(chosen + others), force=arguments.progress)
    how = (arguments.iters, arguments.warmup_iters, arguments.check)
    for kind, nbytes in product(kinds, sizes):
        x = values(kind, nbytes // 4)
        out = np.ones_like(x)
        for each in chosen + others:
            bar.step(f"{each} on {kind}")
            row = {"codec": str(each), "data": kind, "size": nbytes, **measure(each, x, out, *how)}
            bar.step()
            report.row(row)
    report.close()
    plots.codecs(arguments, report)


def measure(
    each: Any, x: np.ndarray, out: np.ndarray, turns: int, more: int = 1, check: Any = True
) -> dict[str, Optional[float]]:
    """Bits a value, error, bound of it, GB/s of values and times as fast as memcpy, encoding and decoding."""
    encode, decode, nbytes = _jobs(each, x, out) if isinstance(each, Codec) else each.jobs(x, out)
    encode()
    decode()
    with np.errstate(all="ignore"):  # infinite values have no error that could be told
        norm = float(np.linalg.norm(x)) if check else 0.0
        error = float(np.linalg.norm(out - x)) / norm if norm else 0.0
    jobs = {
        "memcpy": lambda: ctypes.memmove(out.ctypes.data, x.ctypes.data, x.nbytes),
        "encode": encode,
        "decode": decode,
    }
    times = alternate(jobs, turns, more=more)
    return {
        "bits": 8 * nbytes() / max(x.size, 1),
        "error": error if check else None,
        "bound": each.omega(x.size) ** 0.5 if isinstance(each, Codec) else None,
        "encode_gbs": x.nbytes / times["encode"] / 1e9,
        "encode": times["memcpy"] / times["encode"],
        "decode_gbs": x.nbytes / times["decode"] / 1e9,
        "decode": times["memcpy"] / times["decode"],
    }


def _jobs(
    each: Codec, x: np.ndarray, out: np.ndarray
) -> tuple[Callable[[], Any], Callable[[], Any], Callable[[], int]]:
    """encode, decode and the wire's bytes, on memory that was touched before, as in a collective."""
    wire = np.ones(each.wire_size(x.size), np.uint8)
    given, result = each._flatten(x, "x"), each._flatten(out, "out")
    return (
        lambda: each.encode_into(given, wire, Stream(1)),
        lambda: each.decode_into(wire, result),
        lambda: each.length(wire, given.n, given.kind),
    )
