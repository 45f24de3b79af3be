"""Predictions against measurements on the emulated network, for docs/scaling.md.

    python -m benchmarks.scaling      as root, some minutes; what is in --results is not measured again

Raw is MPI's own Allreduce, in its default or as a forced ring, whichever took less time; natural travels by each of
WAYS. The predictor is told of the emulation: that the hosts share this machine's cores, and that headers take
their part of a link. Nothing else of what is measured.
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

from benchmarks.netlab.lab import Lab
from benchmarks.netlab.units import bits_per_second
from benchmarks.page import fill, number, table
from mpicomp import codec, prediction, speeds
from mpicomp.cli.simulate import WHOLE
from mpicomp.ports.sim import Costs, Network

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scaling.md"
SIZE, VALUES = "40M", 10 << 20
WAYS = ("direct", "ring")  # of natural
RATES = ("1Gbit", "100Mbit")
HOSTS = (2, 4, 8)
LATENCY = 50e-6  # of the emulation itself; more would be added by a program that has to share the cores, too
GOODPUT = 1448 / 1514  # of a link: what TCP over IPv4 leaves of an Ethernet frame, which counts without its preamble


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "scaling.json")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no measurement is begun")
    arguments = parser.parse_args()
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


def measure(rate: str, hosts: int) -> dict[str, float]:
    """Seconds of raw and, by each way, of natural."""
    file = ROOT / "build" / "scaling-run.json"
    words = f"-m mpicomp bench allreduce --sizes {SIZE} -c 0 --algorithm {','.join(WAYS)} natural -J {file}"
    turns = "-n 5 -w 1" if rate == "1Gbit" else "-n 3 -w 0"
    times = []
    for ring in (False, True):
        run(hosts, rate, ring, f"{words} {turns}")
        rows = json.loads(file.read_text())["rows"]
        times.append({"raw": rows[0]["raw_us"] / 1e6, **{row["algorithm"]: row["time_us"] / 1e6 for row in rows}})
    return {name: min(each[name] for each in times) for name in times[0]}


def run(hosts: int, rate: str, ring: bool, words: str) -> None:
    with Lab(hosts, rate) as lab:
        command = [sys.executable, *words.split()]
        if lab.run(command, forced_ring=ring, timeout=90, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"{' '.join(command)}: failed")


def shared(costs: Costs, ranks: int) -> Costs:
    """Of ranks on this machine's cores."""
    share = max(ranks / (os.cpu_count() or 1), 1)
    return Costs(*(speed / share for speed in vars(costs).values()))


def predict(rate: str, hosts: int) -> dict[str, float]:
    net = Network(LATENCY, bits_per_second(rate) / 8 * GOODPUT, overhead=speeds.message())
    plain, natural = (shared(speeds.costs(codec(spec), 4 << 20), hosts) for spec in ("raw", "natural"))
    raw = [prediction.allreduce(VALUES, hosts, "raw", name, net, plain, WHOLE).seconds for name in ("ring", "halving")]
    return {
        "raw": min(raw),
        **{way: prediction.allreduce(VALUES, hosts, "natural", way, net, natural).seconds for way in WAYS},
    }


def write(found: dict[str, dict[str, float]]) -> None:
    heads = ["link", "hosts"]
    names = {"raw": "raw", **{way: f"natural, {way}" for way in WAYS}}
    heads += [f"{shown}: {what}" for shown in names.values() for what in ("measured, ms", "predicted, ms", "off by")]
    rows = []
    for rate, hosts in ((rate, hosts) for rate in RATES for hosts in HOSTS if f"{rate} {hosts}" in found):
        measured, predicted = found[f"{rate} {hosts}"], predict(rate, hosts)
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
