"""mpicomp tune: measure every algorithm at every size, for MPICOMP_TUNING."""

from __future__ import annotations

import argparse
import os
import sys

from ..tuning import parse_size
from . import numbers
from .bench import options
from .terminal import watched
from .together import on_first

DEFAULT = "mpicomp-tuning.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default=os.environ.get("MPICOMP_TUNING") or DEFAULT, help="file to add to")
    parser.add_argument("--codec", action="append", help="codec to measure (again for more; default natural)")
    parser.add_argument("--dtype", default="float32", help="float32 or float64")
    parser.add_argument("-b", "--begin", type=parse_size, default="1K", help="smallest array")
    parser.add_argument("-e", "--end", type=parse_size, default="64M", help="largest array")
    parser.add_argument("-f", "--factor", type=float, default=4, help="step between sizes")
    parser.add_argument(
        "-n", "--repeats", type=numbers.positive, default=5, help="measurements of each, of which the median counts"
    )


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    from .. import calibration, settings, tuning
    from ..arrays import KINDS, kind_from
    from ..ports.mpi import port_of

    port, plain = port_of(MPI.COMM_WORLD), MPI.COMM_WORLD
    kind = kind_from(arguments.dtype, "--dtype")
    sizes = options.between(max(arguments.begin, KINDS[kind].storage.itemsize), arguments.end, arguments.factor)
    codecs = {spec: settings.make(spec) for spec in arguments.codec or ["natural"]}
    on_first(plain, tuning.prepare, arguments.output)
    for spec, chosen in codecs.items():
        total = len(sizes) * len(calibration.planning.CANDIDATES)
        bar = _Bar(spec, total) if port.rank == 0 else lambda algorithm, nbytes: None
        table = calibration.measure(port, chosen, kind, tuple(sizes), arguments.repeats, float("inf"), bar)
        name = tuning.key(port, chosen.codec, chosen.down, kind)
        on_first(plain, tuning.save, arguments.output, name, table)
        if port.rank == 0:
            _report(name, sizes, table)
    if port.rank == 0:
        print(f"\nwritten to {arguments.output}; use it with MPICOMP_TUNING={os.path.abspath(arguments.output)}")


class _Bar:
    """A progress bar on stderr, if somebody watches."""

    def __init__(self, label: str, total: int):
        self.label, self.total, self.done = label, total, 0

    def __call__(self, algorithm: str, nbytes: int) -> None:
        self.done += 1
        if watched():
            filled = 30 * self.done // self.total
            text = f"{self.label} [{'#' * filled}{'.' * (30 - filled)}] {algorithm} {nbytes:,} bytes"
            print(f"\r{text:<79}", end="\n" if self.done == self.total else "", file=sys.stderr, flush=True)


def _report(name: str, sizes: list[int], table: object) -> None:
    print(f"\n{name}\n{'bytes':>12}  {'best':<14}times")
    for nbytes in sizes:
        ranking = table.ranking(nbytes, table.points)  # type: ignore[attr-defined]
        print(f"{nbytes:>12,}  {ranking[0][0]:<14}" + "  ".join(f"{a} {s * 1e3:.3f} ms" for a, s in ranking))
