"""mpicomp simulate: what each algorithm would cost on a network that is not there.

The same schedules as on MPI run on virtual ranks; where those are too many, closed formulas that such runs obey. What the
codec's arithmetic and a message cost a core is measured now, on this machine. `raw` is the better of what MPIs do with
large arrays, a ring or recursive halving, exact and in one piece, messages for nothing; the last column compares with it. Gossip is one
averaging step with the neighbours; `steps` is how many of them make the distance to the mean 1000 times smaller, without
a codec, and `to consensus` what they take together.
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import replace
from functools import cached_property
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from .. import prediction, speeds, topology
from ..codecs import codec
from ..errors import CodecError, Error
from ..ports.sim import Costs, Network
from ..prediction import Prediction
from ..schedules import ALLREDUCE
from ..tuning import parse_size
from . import numbers
from .bench import options, plots
from .bench.data import square
from .bench.report import Bar, Column, Report, digits
from .timing import seconds, size

CLOSER = 1e-3  # what is left of the distance to the mean when gossip counts as through
WHOLE = 1 << 60  # bytes of a segment: the array is not cut
LARGEST = 256  # ranks of a torus that is simulated
MEASURED = 4 << 20  # values with which codecs are timed: more than caches hold
COLUMNS = {
    "ranks": Column("ranks", 6),
    "what": Column("what", 10),
    "algorithm": Column("algorithm", 12),
    "codec": Column("codec", 16),
    "seconds": Column("time", 8, seconds),
    "sent": Column("node sends", 10, size),
    "steps": Column("steps", 7, digits(3)),
    "consensus": Column("to consensus", 12, lambda value: "-" if value is None else seconds(value)),
    "by": Column("by", 9),
    "speedup": Column("x raw", 6, digits(3)),
}


def quantity(text: str, units: Mapping[str, float], example: str) -> float:
    match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*([a-z]*)(?:/s)?\s*", text, re.IGNORECASE)
    if not match or match[2].lower() not in units or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity such as {example}")
    return float(match[1]) * units[match[2].lower()]


def bandwidth(text: str) -> float:
    """25Gbit: bytes a second."""
    return quantity(text, {"bit": 1 / 8, "kbit": 1e3 / 8, "mbit": 1e6 / 8, "gbit": 1e9 / 8}, "25Gbit")


def latency(text: str) -> float:
    """2us: seconds."""
    return quantity(text, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}, "2us")


def ranks(text: str) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers of ranks, 2 or more, such as 8,64,512")
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", type=ranks, default=[8, 64, 512, 4096], help="8,64,512,4096")
    parser.add_argument("--size", type=numbers.size, default=parse_size("100M"), help="bytes of float32 values (100M)")
    parser.add_argument("--codec", action="append", metavar="SPEC", help="repeated, or a comma list (natural)")
    parser.add_argument(
        "--segment", type=numbers.size, help="bytes of the pieces that arrays are cut into (as mpicomp does)"
    )
    parser.add_argument("--lowrank", type=int, default=2, metavar="RANK", help="of PowerSGD on one square matrix (2)")
    group = parser.add_argument_group("the network")
    group.add_argument("--bandwidth", type=bandwidth, default="25Gbit", help="of a node's link, each way (25Gbit)")
    group.add_argument("--latency", type=latency, default="2us", help="one way (2us)")
    group.add_argument("--nodes-of", type=int, default=1, metavar="N", help="ranks that share a node and its link (1)")
    group.add_argument("--local-bandwidth", type=bandwidth, default="80Gbit", help="of a rank within its node (80Gbit)")
    group.add_argument("--local-latency", type=latency, default="1us", help="within a node (1us)")
    group = parser.add_argument_group("the machine")
    group.add_argument("--ranks-per-core", type=float, default=1, help="how many share a core (1)")
    group.add_argument("--overhead", type=latency, help="of a core for each message (of mpicomp measured, of raw 0)")
    group.add_argument(
        "--carrying", type=latency, default=0.0, help="of a core for each byte on a link, such as 0.5ns for TCP (0)"
    )
    options.add_output(parser, ("table", "csv", "json"))


def run(arguments: argparse.Namespace) -> None:
    plots.check(arguments)
    if arguments.nodes_of < 1 or arguments.ranks_per_core <= 0 or arguments.lowrank < 1:
        raise Error("--nodes-of, --ranks-per-core and --lowrank must be positive")
    machine = Machine(arguments)
    specs = [str(codec(spec)) for spec in options.split(arguments.codec) or ["natural"]]
    facts = {
        "mpicomp simulate": f"{size(arguments.size)} of float32, {arguments.nodes_of} rank(s) a node",
        "network": f"{arguments.bandwidth * 8 / 1e9:g} Gbit/s, {seconds(arguments.latency)}",
        "within a node": f"{arguments.local_bandwidth * 8 / 1e9:g} Gbit/s, {seconds(arguments.local_latency)}",
        "a message costs a core": seconds(machine.network.overhead),
        "a byte on a link": f"{1e9 * machine.network.carrying:.3g} ns of a core",
        "measured, GB/s": machine.describe(["raw", *specs]),
    }
    cases = {p: list(machine.cases(p, specs)) for p in arguments.ranks}
    report = Report(COLUMNS, facts, arguments)
    bar = Bar(sum(map(len, cases.values())), force=arguments.progress)
    for p, each in cases.items():
        found = []
        for case in each:
            try:
                found.append(predicted(bar, p, *case))
            except CodecError as error:
                report.note(f"{case[1]} is left out: {error}")
        raw = min(row["seconds"] for row in found if row["what"] == "raw")
        for row in found:
            report.row({**row, "speedup": raw / row["seconds"]})
    report.close()
    plots.scaling(arguments, report)


def predicted(bar: Bar, p: int, what: str, algorithm: str, spec: str, steps: Any, predict: Any) -> dict[str, Any]:
    """A row of the table."""
    bar.step(f"{p} ranks, {what} {algorithm} {spec}")
    found: Prediction = predict()
    bar.step()
    row = {"ranks": p, "what": what, "algorithm": algorithm, "codec": spec, "steps": steps}
    row.update(seconds=found.seconds, sent=found.sent, consensus=steps and steps * found.seconds)
    return {**row, "by": "schedule" if found.simulated else "formula"}


class Machine:
    """A network between machines like this one."""

    def __init__(self, arguments: argparse.Namespace):
        self.n, self.rank, self.share = arguments.size // 4, arguments.lowrank, arguments.ranks_per_core
        self.segment = arguments.segment
        overhead = speeds.message() if arguments.overhead is None else arguments.overhead
        self.network = Network(
            arguments.latency,
            arguments.bandwidth,
            arguments.nodes_of,
            arguments.local_latency,
            arguments.local_bandwidth,
            overhead * self.share,
            arguments.carrying * self.share,
        )
        self.mpi = replace(self.network, overhead=(arguments.overhead or 0.0) * self.share)  # C, a fraction of ours
        self._costs: dict[str, Costs] = {}

    def costs(self, spec: str) -> Costs:
        """Measured when they are asked for first."""
        if spec not in self._costs:
            measured = speeds.costs(codec(spec), min(self.n, MEASURED))
            self._costs[spec] = Costs(*(speed / self.share for speed in vars(measured).values()))
        return self._costs[spec]

    @cached_property
    def factoring(self) -> float:
        return self.share * speeds.factoring(f"lowrank:rank={self.rank}", square(self.n))

    def describe(self, specs: list[str]) -> str:
        """Measured speeds."""
        rows = ((spec, self.costs(spec)) for spec in dict.fromkeys(specs))
        return "; ".join(
            f"{spec} encode {at.encode / 1e9:.3g}, decode {at.decode / 1e9:.3g}, sum {at.reduce / 1e9:.3g}"
            for spec, at in rows
        )

    def cases(self, p: int, specs: list[str]) -> Iterator[Any]:
        """(what, algorithm, codec, steps to consensus, a function that predicts) of everything on p ranks."""
        for name in ("ring", "halving"):
            yield "raw", name, "raw", None, self.allreduce(p, "raw", name, WHOLE)
        for spec in specs:
            for name in ALLREDUCE:
                if name != "hierarchical" or 1 < self.network.nodes_of < p:
                    yield "allreduce", name, spec, None, self.allreduce(p, spec, name, self.segment)
        yield "allreduce", "lowrank", f"lowrank:rank={self.rank}", None, self.lowrank(p)
        for name, dims in {"ring": [p], "torus": dims_of(p)}.items():
            steps = steps_to_consensus(dims)
            for spec in ("raw", *specs):
                yield "gossip", name, spec, steps, self.gossip(dims, spec)

    def allreduce(self, p: int, spec: str, name: str, segment: Any = None) -> Callable[[], Prediction]:
        network = self.mpi if spec == "raw" else self.network
        return lambda: prediction.allreduce(self.n, p, spec, name, network, self.costs(spec), segment)

    def gossip(self, dims: list[int], spec: str) -> Callable[[], Prediction]:
        """A rank meets its neighbours only: a larger torus takes as long."""
        few = [min(d, round(LARGEST ** (1 / len(dims)))) for d in dims]
        return lambda: prediction.gossip(self.n, topology.torus(few), spec, self.network, self.costs(spec))

    def lowrank(self, p: int) -> Callable[[], Prediction]:
        spec, shape = f"lowrank:rank={self.rank}", square(self.n)
        return lambda: prediction.lowrank(shape, p, spec, self.network, self.costs("raw"), self.factoring)


def dims_of(p: int) -> list[int]:
    """The torus that mpicomp.torus makes of p ranks."""
    from mpi4py import MPI

    return MPI.Compute_dims(p, [0, 0])


def steps_to_consensus(dims: list[int]) -> float:
    """On a torus every rank's row of W is rank 0's, shifted: W's eigenvalues are the Fourier transform of it."""
    row = np.zeros(dims)
    for rank, weight in topology.torus(dims).weights[0].items():
        row[np.unravel_index(rank, dims)] = weight
    second = np.sort(np.abs(np.fft.fftn(row)), axis=None)[-2]
    return max(math.log(CLOSER) / math.log(max(second, 1e-300)), 1.0)
