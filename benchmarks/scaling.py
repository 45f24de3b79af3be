"""Predictions against measurements on the emulated network, for docs/scaling.md.

    python -m benchmarks.scaling      as root, some ten minutes; what is in --results is not measured again

Raw is MPI's own Allreduce, in its default or as a forced ring, whichever took less time; natural travels by each of
WAYS. Each is called again and again in a program of its own, as its users would: in turns with the others
`direct` takes longer on 8 hosts (docs/scaling.md).

The predictor is told of the emulation, whose hosts share this machine's cores: how fast codecs are while all ranks use
them, what a message costs a core whose caches a codec has filled, and a byte on the way (benchmarks/carrying.py, plain
sockets), and that headers take their part of a link. Nothing of any Allreduce.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.carrying import STOLEN, ticks
from benchmarks.netlab.lab import Lab
from benchmarks.netlab.units import bits_per_second
from benchmarks.page import fill, number, table
from mpicomp import Comm, codec, prediction, speeds
from mpicomp.cli.bench.data import values
from mpicomp.cli.simulate import WHOLE
from mpicomp.cli.timing import alternate
from mpicomp.ports.sim import Costs, Network

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scaling.md"
VALUES = 10 << 20  # 40 MB
TURNS = 5
WAYS = ("direct", "ring")  # of natural
RATES = ("1Gbit", "100Mbit")
HOSTS = (2, 4, 8)
LATENCY = 50e-6  # of the emulation itself; more would be added by a program that has to share the cores, too
GOODPUT = 1448 / 1514  # of a link: what TCP over IPv4 leaves of an Ethernet frame, which counts without its preamble


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "scaling.json")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no measurement is begun")
    parser.add_argument("--inside", choices=("machine", "raw", *WAYS), help=argparse.SUPPRESS)  # what ranks do in a lab
    arguments = parser.parse_args()
    if arguments.inside:
        return inside(arguments.inside)
    found = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + arguments.seconds
    for hosts in HOSTS:
        for rate in RATES:
            name = f"{rate} {hosts}"
            if name not in found and time.monotonic() < end:
                print(name, "...", file=sys.stderr, flush=True)
                found[name] = measure(rate, hosts)
                arguments.results.write_text(json.dumps(found, indent=1))
    write(found)


def measure(rate: str, hosts: int) -> dict[str, Any]:
    """Seconds of raw and, by each way, of natural; and what the predictor is told."""
    raw = min(run(hosts, rate, "raw", ring) for ring in (False, True))
    took = {"raw": raw, **{way: run(hosts, rate, way) for way in WAYS}}
    return {"measured": took, "machine": run(hosts, rate, "machine")}


def run(hosts: int, rate: str, what: str, ring: bool = False) -> Any:
    """What `inside` found on that many hosts. Where other machines took more than 2 % of the cores meanwhile, it is measured
    again; of a few tries that with the least counts."""
    tries: list[tuple[float, str]] = []
    while not tries or (tries[-1][0] > 0.02 and len(tries) < 6):
        before = ticks()
        with Lab(hosts, rate) as lab:
            command = [sys.executable, "-m", "benchmarks.scaling", "--inside", what]
            ended = lab.run(command, forced_ring=ring, timeout=90, stdout=subprocess.PIPE, text=True)
        if ended.returncode:
            sys.exit(f"{' '.join(command)}: failed")
        spent = ticks() - before
        tries.append((spent[STOLEN] / spent.sum(), ended.stdout.strip()))
        print(f"  {what}{' as a ring' * ring}: {tries[-1][1]}, stolen {tries[-1][0]:.1%}", file=sys.stderr, flush=True)
    return json.loads(min(tries)[1])


def inside(what: str) -> None:
    """What each rank of a lab does; rank 0 prints JSON."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    found = machine(world) if what == "machine" else calls(world, what)
    if world.rank == 0:
        print(json.dumps(found))


def calls(world: Any, way: str) -> float:
    """The median of some calls after a first one."""
    comm = world if way == "raw" else Comm(world, "natural", algorithm=way)
    x = values("normal", VALUES, world.rank)
    out = np.empty_like(x)
    return alternate({way: lambda: comm.Allreduce(x, out)}, TURNS, world)[way]


def machine(world: Any) -> dict[str, Any]:
    """Of its cores, while all ranks use them: codecs' speeds, and seconds for a message and for a byte on the way."""
    from benchmarks import carrying

    found: dict[str, Any] = {}
    for spec in ("raw", "natural"):
        world.Barrier()
        found[spec] = np.median(world.allgather([*vars(speeds.costs(codec(spec), VALUES)).values()]), axis=0).tolist()
    found["cores"] = os.cpu_count()
    found["message"] = float(np.median(world.allgather(speeds.message(4 << 20))))
    found["byte"] = {
        way: carrying.measure(world, flows) for way, flows in {"ring": 1, "direct": world.size - 1}.items()
    }
    return found


def predict(rate: str, hosts: int, told: dict[str, Any]) -> dict[str, float]:
    """Seconds of what was measured; halving, if that is what MPI does, has one partner at a time as a ring has."""
    share = max(hosts / told["cores"], 1)
    plain, natural = (Costs(*(speed / share for speed in told[spec])) for spec in ("raw", "natural"))
    networks = {
        way: Network(
            LATENCY, bits_per_second(rate) / 8 * GOODPUT, overhead=told["message"] * share, carrying=cost * share
        )
        for way, cost in told["byte"].items()
    }
    raw = [
        prediction.allreduce(VALUES, hosts, "raw", name, networks["ring"], plain, WHOLE).seconds
        for name in ("ring", "halving")
    ]
    return {
        "raw": min(raw),
        **{way: prediction.allreduce(VALUES, hosts, "natural", way, networks[way], natural).seconds for way in WAYS},
    }


def write(found: dict[str, dict[str, Any]]) -> None:
    heads = ["link", "hosts"]
    names = {"raw": "raw", **{way: f"natural, {way}" for way in WAYS}}
    heads += [f"{shown}: {what}" for shown in names.values() for what in ("measured, ms", "predicted, ms", "off by")]
    rows = []
    for rate, hosts in ((rate, hosts) for rate in RATES for hosts in HOSTS if f"{rate} {hosts}" in found):
        cell = found[f"{rate} {hosts}"]
        measured, predicted = cell["measured"], predict(rate, hosts, cell["machine"])
        row: list[Any] = [rate.replace("Gbit", " Gbit/s").replace("Mbit", " Mbit/s"), hosts]
        for name in names:
            off = 100 * (predicted[name] / measured[name] - 1)
            row += [number(1e3 * measured[name]), number(1e3 * predicted[name]), f"{off:+.0f} %"]
        rows.append(row)
    text = table(heads, rows)
    print(text)
    fill(PAGE, {"measured": lambda: text})


if __name__ == "__main__":
    main()
