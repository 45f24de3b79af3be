"""The command line, one command a file: each has add_arguments(parser) and run(arguments)."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Optional, Sequence

from ..errors import Error

COMMANDS = {
    "demo": "a table of raw against compressed Allreduce, to be started with mpirun",
    "bench": "measure codecs and collectives",
    "tune": "measure all algorithms on this network and write a tuning file, to be started with mpirun",
    "simulate": "what each algorithm would cost on a network that is not there, up to thousands of ranks",
    "info": "versions, MPI library, kernels, CUDA",
    "run": "start an mpi4py script with a compressed COMM_WORLD",
}


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="mpicomp", description="MPI collectives that travel compressed.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, help in COMMANDS.items():
        command = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        module = import_module(f".{name}", __name__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except Error as error:
        if arguments.command == "run":
            raise
        sys.exit(f"mpicomp {arguments.command}: {error}")
