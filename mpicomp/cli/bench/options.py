"""The options that measurements of collectives share: those of nccl-tests, and of the OSU benchmarks where they differ."""

from __future__ import annotations

import argparse
import re
from typing import Iterable, Optional, Sequence

from ...errors import Error
from ...tuning import parse_size
from .. import numbers

CODECS = ["natural", "natural:bits=8", "qsgd:bits=4"]


FORMATS = ("table", "osu", "csv", "json")


def add_collective(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """Sizes, turns, codecs, data and output of a measurement that goes over sizes."""
    add_sizes(parser)
    parser.add_argument("codecs", nargs="*", metavar="CODEC", help=f"codecs ({' '.join(CODECS)})")
    parser.add_argument(
        "--codec", action="append", metavar="SPEC", help="more codecs; may be repeated, or a comma list"
    )
    parser.add_argument(
        "--algorithm", action="append", metavar="NAME", help="auto, one algorithm, a comma list, or all"
    )
    parser.add_argument("-d", "--datatype", "--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument(
        "--data",
        default="normal",
        metavar="KIND",
        help="normal, heavy, sparse, gradient, or a file (.npy, or plain values)",
    )
    parser.add_argument("--seed", type=numbers.not_negative, default=0, help="seed of the data and of the codecs (0)")
    add_turns(parser)
    parser.add_argument("--budget", type=float, default=60, help="seconds for a size, after at least 3 turns (60)")
    add_output(parser, formats)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sizes, in bytes: 8, 64K, 128M")
    group.add_argument("-b", "--minbytes", "--begin", type=parse_size, default=parse_size("1K"), help="smallest (1K)")
    group.add_argument("-e", "--maxbytes", "--end", type=parse_size, default=parse_size("64M"), help="largest (64M)")
    group.add_argument("-f", "--stepfactor", "--factor", type=float, default=4, help="factor between sizes (4)")
    group.add_argument("--stepbytes", type=parse_size, help="bytes between sizes, instead of a factor")
    group.add_argument("-m", "--message-size", metavar="[MIN:]MAX", help="as -b MIN -e MAX")
    group.add_argument("--sizes", nargs="+", type=numbers.size, metavar="SIZE", help="these sizes, instead")


def add_turns(parser: argparse.ArgumentParser, turns: int = 20, more: int = 5) -> None:
    group = parser.add_argument_group("turns: in each, everything is measured once, plain MPI too; medians count")
    group.add_argument(
        "-n", "-i", "--iters", "--iterations", "--runs", type=numbers.positive, default=turns, help=f"turns ({turns})"
    )
    names = ("-w", "-x", "--warmup-iters", "--warmup")
    group.add_argument(*names, type=numbers.not_negative, default=more, help=f"turns not counted ({more})")
    group.add_argument("-c", "--check", type=int, default=1, help="0: do not compare results with the exact ones")


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    def known(text: str) -> str:
        if text == "osu" and text not in formats:
            raise argparse.ArgumentTypeError(f"'osu' is for times of messages; here: {', '.join(formats)}")
        return text

    group = parser.add_argument_group("output")
    group.add_argument("--format", type=known, choices=formats, default="table")
    group.add_argument("-J", "--output-file", metavar="FILE", help="write JSON to a file, too")
    group.add_argument("--plot", metavar="FILE", help="draw it, too (needs matplotlib)")
    group.add_argument("--progress", action="store_true", help="a progress bar even if stderr is no terminal")


def sizes(arguments: argparse.Namespace) -> list[int]:
    """The sizes that were asked for, in bytes. Without a smallest one, the largest alone."""
    if arguments.sizes:
        return list(arguments.sizes)
    size, last = arguments.minbytes, arguments.maxbytes
    if arguments.message_size:
        low, colon, high = arguments.message_size.partition(":")
        size, last = parse_size(low) if colon else size, parse_size(high if colon else low)
    return between(last if size is None else size, last, arguments.stepfactor, arguments.stepbytes)


def between(first: int, last: int, factor: float, step: Optional[int] = None) -> list[int]:
    """Sizes from the first, of at least a value, to the last: each `factor` times the one before, or `step` bytes more."""
    if step is None and not factor > 1:
        raise Error(f"-f {factor:g}: the factor between sizes must be more than 1")
    found, size = [], max(first, numbers.SMALLEST)
    if size > last:
        raise Error(f"there are no sizes from {size} to {last} bytes")
    while size <= last:
        found.append(size)
        size = size + max(step, 1) if step is not None else max(round(size * factor), size + 1)
    return found


def split(specs: Optional[Iterable[str]]) -> list[str]:
    """The items of comma lists. A comma before `word=` belongs to the settings of an item: "qsgd:bits=4,block=64,raw"."""
    return [item.strip() for spec in specs or () for item in re.split(r",(?![^=:|,]*=)", spec) if item.strip()]


def codecs(arguments: argparse.Namespace, default: Sequence[str] = CODECS) -> list[str]:
    return split(arguments.codecs) + split(arguments.codec) or list(default)


def algorithms(arguments: argparse.Namespace, known: Iterable[str]) -> list[str]:
    """What --algorithm says; `all` is auto and every algorithm there is."""
    asked = split(arguments.algorithm) or ["auto"]
    return list(dict.fromkeys(name for item in asked for name in (["auto", *known] if item == "all" else [item])))
