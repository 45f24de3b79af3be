"""mpicomp run: an unchanged mpi4py script with a compressed COMM_WORLD."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import time
import traceback
from importlib.util import find_spec
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--codec", help="spec of the codec (else MPICOMP_CODEC, else natural)")
    parser.add_argument("--algorithm", help="algorithm (else MPICOMP_ALGORITHM, else auto)")
    parser.add_argument("--seed", type=int, help="seed (else MPICOMP_SEED, else 0)")
    parser.add_argument("-m", dest="module", action="store_true", help="script is the name of a module")
    parser.add_argument("script", help="the script, or with -m the module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")


def run(arguments: argparse.Namespace) -> None:
    mistake = _mistake(arguments)
    if mistake:
        print(f"mpicomp run: error: {mistake}", file=sys.stderr)
        sys.exit(2)
    from mpi4py import MPI

    from ..comm import Comm

    MPI.COMM_WORLD = Comm(MPI.COMM_WORLD, arguments.codec, algorithm=arguments.algorithm, seed=arguments.seed)  # type: ignore[misc]
    sys.argv = [arguments.script, *arguments.args]
    try:
        if arguments.module:
            runpy.run_module(arguments.script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(arguments.script)))
            runpy.run_path(arguments.script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0) and _others(MPI):
            known = isinstance(end.code, int)
            if not known:
                print(end.code, file=sys.stderr)  # as Python itself would, but Abort comes first
            _abort(MPI, end.code if known else 1)
        raise
    except BaseException:
        if _others(MPI):
            traceback.print_exc()
            _abort(MPI, 1)
        raise


def _mistake(arguments: argparse.Namespace) -> str:
    """What is wrong with the arguments, before MPI is there; nothing if they will do."""
    from .. import settings

    try:
        settings.make(arguments.codec, arguments.algorithm, arguments.seed)
    except ValueError as error:
        return str(error)
    if not arguments.module:
        if os.path.isdir(arguments.script) and not os.path.exists(os.path.join(arguments.script, "__main__.py")):
            return f"{arguments.script!r} is a folder without a __main__.py"
        return "" if os.path.exists(arguments.script) else f"there is no script {arguments.script!r}"
    try:
        found = find_spec(arguments.script)
    except (ImportError, ValueError):
        found = None
    return "" if found else f"there is no module {arguments.script!r}"


def _others(MPI: Any) -> bool:
    """Whether there are ranks that could wait for this one."""
    return not MPI.Is_finalized() and MPI.COMM_WORLD.size > 1


def _abort(MPI: Any, code: Any) -> None:
    """One rank that ends alone would leave the others waiting: end them all, as python -m mpi4py does."""
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(0.2)  # MPICH's launcher may end before it has passed on what was just printed
    MPI.COMM_WORLD.Abort(code)
