"""Train what docs/training.md shows, then write its tables and pictures.

    python -m benchmarks.training list [PATTERN ...]       the trainings, and those that are done
    python -m benchmarks.training measure [PATTERN ...]    those that are not done yet
    python -m benchmarks.training write                    tables and pictures of what there is (needs matplotlib)

Results are JSON files in build/training: what is there is not done again. Trainings that are about accuracy take about half a
minute each, all of one number of ranks in one mpirun. Those named network-... are about time: each is a netlab (needs root) of
two to three minutes, in which everything that is compared takes its turn. `--before nice` puts a word before each command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.netlab import launch

from . import write
from .runs import RATES, SEEDS, trainings

ROOT = Path(__file__).resolve().parents[2]
NETLAB = str(ROOT / "benchmarks" / "netlab" / "netlab")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.training", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("list", "measure", "write"))
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN", help="of names, as in a shell")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "training")
    parser.add_argument("--before", default="", metavar="WORDS", help="before each command")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"), help="a python with MPICH and torch")
    arguments = parser.parse_args()
    if arguments.action == "write":
        write.everything(arguments.results)
        return
    arguments.results.mkdir(parents=True, exist_ok=True)
    for command, names in commands(arguments.python):
        chosen = [name for name in names if any(fnmatch(name, pattern) for pattern in arguments.patterns)]
        done = [name for name in chosen if (arguments.results / f"{name}.json").exists()]
        if arguments.action == "list":
            print(*(f"{'done' if name in done else '    '}  {name}" for name in chosen), sep="\n")
        elif left := [name for name in chosen if name not in done]:
            variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
            subprocess.run(
                [*arguments.before.split(), *command, str(arguments.results), *left], env=variables, check=True
            )


def commands(python: str) -> list[tuple[list[str], list[str]]]:
    """(words, the trainings that it can do)."""
    mpiexec, _ = launch.find(python, "mpich")
    found = []
    for ranks in (4, 8):
        names = [training.name for training in trainings() if training.way.ranks == ranks]
        found.append(([mpiexec, "-n", str(ranks), python, "-m", "benchmarks.training.accuracy"], names))
    for rate in RATES:
        lab = [NETLAB, "--hosts", "4", "--bandwidth", rate, "--latency", "0.1ms", "--timeout", "300", "--mpi", "mpich"]
        program = [python, "-m", "benchmarks.training.network"]
        found += [([*lab, "--", *program], [f"network-{rate}-{seed}"]) for seed in SEEDS]
    return found


if __name__ == "__main__":
    main()
