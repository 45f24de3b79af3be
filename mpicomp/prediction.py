"""How long collectives would take on a network that is not there.

The schedules run on virtual ranks, with wires that have a length and nothing in them; arithmetic takes the time that
Costs say. Where that is too much work, more than MOST messages, a closed formula stands in for it (see `formula`).
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple, Optional, Sequence

from . import planning, settings
from .arrays import KINDS
from .codecs import Codec, LowRank, codec
from .codecs.base import Stream
from .engine import Run
from .errors import CodecError
from .exchange import Exchange, Link
from .planning import Plan
from .ports.sim import Costed, Costs, Network, SimPort, Simulation
from .schedules import facts, parse
from .schedules.neighbor import lanes
from .topology import Topology

MOST = 60_000  # messages that are simulated: some seconds
KIND = "f32"


class Prediction(NamedTuple):
    """Seconds, bytes that leave the busiest node, and whether virtual ranks or the formula said so."""

    seconds: float
    sent: float
    simulated: bool


class Wire:
    """Some bytes, of which only the number counts."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int):
        self.nbytes = nbytes

    @property
    def size(self) -> int:
        return self.nbytes

    def __getitem__(self, part: slice) -> Wire:
        return Wire(part.stop - (part.start or 0))


class Length(NamedTuple):
    """An array of which only the number of values counts."""

    n: int


class Hollow:
    """What a schedule asks of a Reduction, of n values that are not there."""

    kind = KIND

    def __init__(self, up: Codec, down: Codec, n: int):
        self.x = Length(n)
        self._up, self._down = lru_cache(None)(up.expected), lru_cache(None)(down.expected)
        self._item = KINDS[KIND].storage.itemsize

    def part_size(self, lo: int, hi: int) -> int:
        return self._up(hi - lo, KIND)

    def sum_size(self, lo: int, hi: int) -> int:
        return self._down(hi - lo, KIND)

    def part_length(self, room: Wire, lo: int, hi: int) -> int:
        return self.part_size(lo, hi)

    def sum_length(self, room: Wire, lo: int, hi: int) -> int:
        return self.sum_size(lo, hi)

    def space(self, nbytes: int) -> Wire:
        return Wire(nbytes)

    def room(self, lo: int, hi: int) -> Wire:
        return Wire(self.part_size(lo, hi))

    def sum_room(self, lo: int, hi: int) -> Wire:
        return Wire(self.sum_size(lo, hi))

    def plain(self, lo: int, hi: int) -> list[Wire]:
        return [Wire((hi - lo) * self._item)]

    def partial(self, lo: int, hi: int, *terms: Any) -> Wire:
        return self.room(lo, hi)

    def reduce(self, lo: int, hi: int, *terms: Any) -> Wire:
        return self.sum_room(lo, hi)

    def among(self, rank: int, size: int) -> Hollow:
        return self

    def nothing(self, *args: Any) -> None:
        pass

    encode, plain_out = room, plain
    part_space = sum_space = space
    release = decode = total = plain_total = write_part = write_partial = write_sum = nothing


def allreduce(
    n: int,
    p: int,
    spec: Any,
    algorithm: str,
    network: Network = Network(),
    costs: Costs = Costs(),
    segment: Optional[int] = None,
    most: int = MOST,
) -> Prediction:
    """An Allreduce of n float32 values on p ranks; by the formula where more than `most` messages would be sent."""
    plan = planning.choose(settings.make(spec, algorithm, segment=segment), n, KIND, p)
    nodes = [rank // network.nodes_of for rank in range(p)]
    lanes = sum(1 for _ in plan.lanes(SimpleNamespace(rank=0, size=p, nodes=nodes), None, 0))
    if 2 * lanes * p * (nodes[-1] + 1 if algorithm == "hierarchical" else p) > most:
        return formula(plan, lanes, network, costs)
    hollow = Hollow(plan.settings.codec, plan.settings.down, n)

    def begin(port: SimPort) -> Run:
        return Run(port, plan.lanes(port, Costed(hollow, port, costs), port.tag()), plan.depth)

    return _simulate(p, network, begin)


def lowrank(
    shape: tuple[int, ...], p: int, spec: Any, network: Network, costs: Costs, seconds: float, most: int = MOST
) -> Prediction:
    """Two exact sums, one for each side's factors, and `seconds` of arithmetic; costs are those of raw."""
    each = codec(spec)
    matrix = each.matrix(shape) if isinstance(each, LowRank) else None
    if matrix is None or not isinstance(each, LowRank):
        raise CodecError(f"{spec} sends arrays of shape {shape} whole")
    item = KINDS[KIND].accumulator.itemsize
    both = zip(
        *(allreduce(n, p, "raw", facts.exact(p, n * item), network, costs, most=most) for n in each.sides(shape))
    )
    return Prediction(sum(next(both)) + seconds, sum(next(both)), all(next(both)))


def gossip(n: int, graph: Topology, spec: Any, network: Network = Network(), costs: Costs = Costs()) -> Prediction:
    """One averaging step of n float32 values with the neighbours."""
    each = codec(spec)

    def begin(port: SimPort) -> Run:
        ranks = (*graph.neighbors[port.rank], port.rank)
        lengths, codecs = dict.fromkeys(ranks, n), dict.fromkeys(ranks, each)
        link = Link(port.rank, graph.size, ranks[:-1], ranks[:-1], lengths, codecs, KIND, grain=each.grain)
        return Run(port, lanes(port, HollowExchange(link, port, costs), port.tag()))

    return _simulate(graph.size, network, begin)


class HollowExchange(Exchange):
    """An exchange with neighbours of values that are not there."""

    def __init__(self, link: Link, port: SimPort, costs: Costs):
        super().__init__(link, Stream(0), port.pool)
        self._port, self._costs, self._item = port, costs, KINDS[KIND].storage.itemsize

    def room(self, source: int, lo: int, hi: int) -> Wire:
        return Wire(self.codecs[source].expected(hi - lo, KIND))

    def encode(self, lo: int, hi: int) -> Wire:
        self._port.spend((hi - lo) * self._item / self._costs.encode)
        return self.room(self.link.rank, lo, hi)

    def decode(self, source: int, wire: Any, lo: int, hi: int) -> None:
        self._port.spend((hi - lo) * self._item / self._costs.decode)

    def release(self, wires: Sequence[Any]) -> None:
        pass


def _simulate(p: int, network: Network, begin: Callable[[SimPort], Run]) -> Prediction:
    simulation = Simulation(p, network)
    return Prediction(simulation.run(begin), max(simulation.carried[:p]), True)


def formula(plan: Plan, lanes: int, network: Network, costs: Costs) -> Prediction:
    """A pipeline of segments: the first one takes all its steps, one after the other, each further one what its slowest
    stage takes, which is the link, the core, or the whole way shared by as many segments as are under way."""
    name, here = parse(plan.algorithm)[0], min(network.nodes_of, plan.p)
    up, down = (each.expected(plan.n, plan.kind) for each in (plan.settings.codec, plan.settings.down))
    values = plan.raw_bytes / lanes
    if name == "hierarchical":  # here a node counts for a rank, and its ranks lead segments in turn
        p, busy = -(-plan.p // here), -(-lanes // here) / lanes
        sent = passed = facts.sent(name, p, up, down)
        local = 2 * (here - 1) * values / network.local_bandwidth
        sums, messages = here * values / costs.reduce, 2 * p * (here - 1)
    else:
        p, busy = plan.p, 1.0
        sent, passed = (bytes_of(name, p, up, down, here) for bytes_of in (facts.sent, facts.passed))
        local, sums, messages = 0.0, 0.0, 0
    work, (far, near) = facts.work(name, p), facts.hops(name, p, here)
    core = sums + (work.messages + messages) * network.overhead
    core += values * (work.encode / costs.encode + work.reduce / costs.reduce + work.decode / costs.decode)
    link = sent / lanes / network.bandwidth
    waits = far * network.latency + near * network.local_latency
    if name == "ring" and here > 1:  # while a part travels within nodes, others pass the link
        waits = max(waits - link * (1 - 1 / here), 0.0)
    first = waits + link * passed / max(sent, 1) + core + local
    slowest = max(link, busy * core, busy * local, first / min(plan.depth, lanes))
    # Of what passes a host's link, both ways, a ring's rank at either end of the host carries its half, a server's root all
    share = {"ring": min(here, 2), "server": 1}.get(name, here)
    carrying = 2 * sent / share * network.carrying
    return Prediction(max(first + (lanes - 1) * slowest, lanes * busy * core + carrying), sent, False)
