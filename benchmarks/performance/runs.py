"""What is measured: each a command of at most 90 seconds."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional

from benchmarks.netlab import launch

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds, of a command that hangs
SIZE = "40M"  # 40 MiB: 2560 x 4096 values for lowrank
RATES = {"1Gbit": 1e9, "100Mbit": 1e8, "10Gbit": 1e10}
HOSTS = (4, 2, 8)
CODECS = (
    "natural",
    "natural:bits=8",
    "natural-dithering:bits=4",
    "natural-dithering:bits=2",
    "qsgd:bits=4",
    "topk:ratio=0.01|natural",
    "lowrank:rank=2",
)
OTHERS = (
    "bf16",
    "qsgd:bits=8",
    "qsgd:bits=2",
    "terngrad",
    "sign",
    "topk:ratio=0.01",
    "randk:ratio=0.01",
)  # by direct alone
AUTO = ("natural", "natural:bits=8", "qsgd:bits=4")
ON_OPENMPI = ("natural", "natural:bits=8", "natural-dithering:bits=4", "natural-dithering:bits=2", "lowrank:rank=2")
WAYS = "direct,ring,lowrank"
SLOW = "-n 3 -w 0 -c 0 --budget 50"  # turns of runs in which one takes seconds
SWEPT = {"100Mbit": "4M", "1Gbit": "64M", "10Gbit": "64M"}  # sizes up to this, by all algorithms


@dataclass(frozen=True)
class Run:
    """One command: `bench` on some ranks, in shared memory or, with a rate, on as many hosts of netlab."""

    name: str
    bench: str
    ranks: int = 1
    mpi: str = "mpich"
    rate: Optional[str] = None
    latency: str = ""  # adding one takes a good part of a core
    ring: bool = False  # MPI's own Allreduce is forced to be a ring

    @property
    def lab(self) -> str:
        """Options of netlab."""
        ring = "--forced-ring" if self.ring else ""
        return " ".join(f"--hosts {self.ranks} --bandwidth {self.rate} {self.latency} {ring}".split())

    @property
    def shown(self) -> str:
        """The command as a reader would write it."""
        words = f"python -m mpicomp bench {self.bench}"
        if self.rate:
            return f"netlab {self.lab} -- {words}"
        return words if self.ranks == 1 else f"mpirun -n {self.ranks} {words}"

    def command(self, python: str, file: Path, turns: Optional[int]) -> tuple[list[str], dict[str, str]]:
        """(words, variables) that write JSON to the file."""
        words = [python, "-m", "mpicomp", "bench", *shlex.split(self.bench), "-J", str(file)]
        words += ["-n", str(turns)] if turns else []
        stop = ["timeout", "-k", "5", str(LIMIT)]
        if self.rate:
            netlab = str(ROOT / "benchmarks" / "netlab" / "netlab")
            options = [*self.lab.split(), "--timeout", str(LIMIT - 10), "--mpi", self.mpi]
            return [*stop, netlab, *options, "--", *words], {}
        if self.ranks == 1:
            return [*stop, *words], {}
        mpiexec, kind = launch.find(python, self.mpi)
        ranks = ["-n", str(self.ranks)]
        if kind == "mpich":
            return [*stop, mpiexec, *ranks, *words], {}
        variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if self.ranks > (os.cpu_count() or 1):
            variables["OMPI_MCA_mpi_yield_when_idle"] = "1"  # or ranks that wait keep the cores from those that work
        return [*stop, mpiexec, "--bind-to", "none", "--oversubscribe", *ranks, *words], variables


def runs() -> Iterator[Run]:
    """The most important first."""
    yield Run("codecs", "codecs --data normal -n 11")
    for hosts in HOSTS:
        for rate in RATES:
            yield from network(hosts, rate)
    for mpi in ("mpich", "openmpi"):
        for ranks in (2, 4):
            where = f"{mpi}-{ranks}"
            both = "--algorithm auto,direct natural natural:bits=8"
            yield Run(f"shm-{where}", f"allreduce --sizes {SIZE} -n 21 -w 3 {both}", ranks, mpi)
            yield Run(f"small-{where}", "allreduce -b 8 -e 4K -f 2 -n 101 -w 10 natural", ranks, mpi)
            sweep = "allreduce -b 1K -e 64M -n 9 -w 2 --budget 4 --algorithm all natural"
            yield Run(f"sizes-{where}", sweep, ranks, mpi)
    for rate, most in SWEPT.items():
        sweep = f"allreduce -b 1K -e {most} -n 5 -w 1 --budget 4 --algorithm all natural"
        yield Run(f"sizes-net-4-{rate}", sweep, 4, rate=rate)
    for rate in ("1Gbit", "100Mbit"):
        turns = SLOW if rate == "100Mbit" else "-n 7 -w 2"
        ways = "direct,lowrank" if rate == "100Mbit" else WAYS  # a ring would take as long again
        words = f"allreduce --sizes {SIZE} {turns} --algorithm {ways} {shlex.join(ON_OPENMPI)}"
        yield Run(f"net-4-{rate}-openmpi", words, 4, "openmpi", rate)
        words = f"allreduce --sizes {SIZE} {turns} -c 0 --algorithm direct natural"
        yield Run(f"net-4-{rate}-openmpi-ring", words, 4, "openmpi", rate, ring=True)
    for hosts in (2, 4):
        words = "overlap --sizes 16M -n 9 -w 2 --algorithm direct natural natural:bits=8"
        yield Run(f"overlap-{hosts}", words, hosts, rate="1Gbit")
    yield Run("neighbor-net", f"neighbor --sizes {SIZE} -n 5 -w 1 natural natural:bits=8 qsgd:bits=4", 4, rate="1Gbit")
    yield Run("neighbor-shm", f"neighbor --sizes {SIZE} -n 11 -w 2 natural natural:bits=8 qsgd:bits=4", 2)


def network(hosts: int, rate: str) -> Iterator[Run]:
    """Every codec against MPI's default, then what differs when MPI is made a ring, and when `auto` chooses."""
    name, slow = f"net-{hosts}-{rate}", rate == "100Mbit"
    turns = SLOW if slow else "-n 9 -w 2"
    every, few = shlex.join(CODECS), shlex.join(AUTO)
    parts = {name: CODECS[:2], f"{name}-more": CODECS[2:]} if slow else {name: CODECS}  # in two runs of a minute each
    for part, specs in parts.items():
        words = f"allreduce --sizes {SIZE} {turns} --algorithm {WAYS} {shlex.join(specs)}"
        yield Run(part, words, hosts, rate=rate)
    yield Run(
        f"{name}-ring", f"allreduce --sizes {SIZE} {turns} --algorithm direct natural", hosts, rate=rate, ring=True
    )
    if (hosts, rate) == (4, "1Gbit"):
        words = f"allreduce --sizes {SIZE} {turns} --algorithm {WAYS} {every}"
        yield Run(f"{name}-delayed", words, hosts, rate=rate, latency="--latency 0.1ms")
    yield Run(f"{name}-auto", f"allreduce --sizes {SIZE} {turns} {few}", hosts, rate=rate)
    words = f"allreduce --sizes {SIZE} {turns} --algorithm direct {shlex.join(OTHERS)}"
    yield Run(f"{name}-others", words, hosts, rate=rate)


RUNS = list(runs())
