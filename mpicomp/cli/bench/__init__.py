"""mpicomp bench: one measurement a file. Each prints ratios of things measured in one run, in turns."""

from __future__ import annotations

import argparse
from importlib import import_module

MEASUREMENTS = {
    "allreduce": "compressed Allreduce against the same MPI's own, to be started with mpirun",
    "family": "the other collectives against the same MPI's own, to be started with mpirun",
    "neighbor": "Neighbor_allgather on a graph against the same MPI's own, to be started with mpirun",
    "overlap": "how much of Iallreduce is hidden behind computing, to be started with mpirun",
    "codecs": "encoding and decoding against memcpy of the same values",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True, metavar="what")
    for name, help in MEASUREMENTS.items():
        each = what.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        module = import_module(f".{name}", __name__)
        module.add_arguments(each)
        each.set_defaults(measure=module.run)


def run(arguments: argparse.Namespace) -> None:
    arguments.measure(arguments)
