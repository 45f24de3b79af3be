"""Virtual ranks in one process, with a virtual clock.

The very schedules that run on MPI run here, for hundreds of ranks. Each host has one link; a message occupies the
sender's side of it, then, `latency` later, the receiver's side, one message after the other. Within a host every rank
has such a link of its own. Arithmetic takes virtual time too (see Costs), one thing at a time on each rank. Bytes on the
way between hosts may keep the cores at both ends busy: a rank does that while it waits, else its own work comes after it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence

from ..arrays import KINDS
from ..engine import Run
from ..errors import RemoteError
from ..job import WORK, Pool, amount
from .base import Port


@dataclass(frozen=True)
class Network:
    """Seconds of latency and bytes a second of each host's link; ranks with the same node share one link and reach
    each other at `local_bandwidth` (`nodes_of` ranks a node). A rank is busy for `overhead` seconds with each message
    that it sends or receives, and for `carrying` seconds with each byte of it that passes a host's link."""

    latency: float = 1e-5
    bandwidth: float = 1.25e9
    nodes_of: int = 1
    local_latency: float = 1e-6
    local_bandwidth: float = 1e10
    overhead: float = 0.0
    carrying: float = 0.0


@dataclass(frozen=True)
class Costs:
    """Bytes of decoded values a second for each sort of work; the default is free."""

    encode: float = float("inf")
    decode: float = float("inf")
    reduce: float = float("inf")


class Message:
    """A send or a receive: `ready` is the virtual time at which it is through, None while that is unknown."""

    __slots__ = ("buffer", "nbytes", "ready", "source")

    def __init__(self, buffer: Any, source: int):
        self.buffer = buffer
        self.nbytes = getattr(buffer, "nbytes", 0)
        self.ready: Optional[float] = None
        self.source = source


class Transit:
    """A message on its way: `arrival` is known once its first byte is at the receiver's link."""

    __slots__ = ("arrival", "awaited", "dest", "posted", "sent")

    def __init__(self, sent: Message, dest: int):
        self.sent, self.dest = sent, dest
        self.arrival: Optional[float] = None
        self.awaited: Optional[Message] = None
        self.posted = 0.0


class SimPort(Port):
    """One virtual rank's end of a simulated network."""

    def __init__(self, simulation: Simulation, rank: int):
        self.simulation = simulation
        self.rank, self.size = rank, simulation.size
        self.nodes = simulation.nodes
        self.now = 0.0
        self.behind = 0.0  # seconds of carrying bytes that the core has yet to do
        self.lock = nullcontext()
        self.active: list[Run] = []
        self.ruins: list[Any] = []
        self._known: dict[
            int, tuple[int, float]
        ] = {}  # how many of a lane's messages are known to be through, and when
        self.pool = simulation.pool
        self.bytes_sent = 0
        self.messages_sent = 0
        self.calls = 0
        self.window = float("inf")  # calls that their tags tell apart

    def check(self) -> None:
        pass  # nothing ends it

    def isend(self, buffer: Any, dest: int, tag: int) -> Message:
        self.bytes_sent += buffer.nbytes
        self.messages_sent += 1
        self.spend(self.simulation.network.overhead)
        return self.simulation.send(self, buffer, dest, tag)

    def irecv(self, buffer: Any, source: int, tag: int) -> Message:
        self.spend(self.simulation.network.overhead)
        return self.simulation.receive(self, buffer, source, tag)

    def done(self, handles: Sequence[Message]) -> bool:
        if self._ready(handles) > self.now:
            return False
        self._known.pop(id(handles), None)
        return True

    def _ready(self, handles: Sequence[Message]) -> float:
        """When all of these are through; inf while that is unknown. Each is looked at once, however often this is asked."""
        at, latest = self._known.get(id(handles), (0, 0.0))
        while at < len(handles):
            ready = handles[at].ready
            if ready is None:
                self._known[id(handles)] = at, latest
                return float("inf")
            at, latest = at + 1, max(latest, ready)
        self._known[id(handles)] = at, latest
        return latest

    def fail(self, error: BaseException) -> None:
        """Nobody needs to be told: virtual ranks are of one process, which the error ends."""

    def tag(self, salt: int = 0) -> int:
        self.calls += 1
        return self.calls << 16

    def spend(self, seconds: float) -> None:
        """Let this rank's core be busy, after all that it is behind with."""
        self.now += seconds + self.behind
        self.behind = 0.0

    def wait(self, until: float) -> None:
        """Do nothing but carry bytes."""
        if until > self.now:
            self.behind = max(self.behind - (until - self.now), 0.0)
            self.now = until

    def carry(self, nbytes: int, peer: int) -> None:
        if self.nodes[peer] != self.nodes[self.rank]:
            self.behind += nbytes * self.simulation.network.carrying

    def wakes(self) -> float:
        """The earliest time at which something that this rank waits for is through; inf if none is known."""
        return min((self._ready(handles) for run in self.active for _, handles in run._lanes), default=float("inf"))


class Simulation:
    """`size` virtual ranks on a network. `run(begin)` starts begin(port) -> Run on each and returns the time it took."""

    def __init__(self, size: int, network: Network = Network()):
        self.size, self.network = size, network
        self.pool = Pool()
        self.nodes = [rank // network.nodes_of for rank in range(size)]
        self.ports = [SimPort(self, rank) for rank in range(size)]
        self.failed: set[int] = set()  # ranks that never answer (fault injection)
        self._sent: dict[Any, deque[Any]] = defaultdict(deque)
        self._awaited: dict[Any, deque[Any]] = defaultdict(deque)
        self._out = [0.0] * 2 * size  # when each link's two sides are free again: those of the nodes, then of the ranks
        self._in = [0.0] * 2 * size
        self.carried = [0] * 2 * size  # bytes that each link sent, in the same order
        self._number = 0  # of transits

    def run(self, begin: Callable[[SimPort], Run]) -> float:
        """Seconds until the last rank is through. Raises RemoteError if ranks wait for messages that never come."""
        start = max(port.now for port in self.ports)
        for port in self.ports:
            port.now = start
        alive = [port for port in self.ports if port.rank not in self.failed]
        self._queue: list[tuple[float, int]] = []
        self._transits: dict[int, Transit] = {}  # by negative numbers, which stand in the queue like ranks
        self._due = [float("inf")] * self.size
        runs = [begin(port) for port in alive]
        for port in alive:
            self._wake(port.rank, start)
        while self._queue:
            when, rank = heapq.heappop(self._queue)
            if rank < 0:
                self._arrive(self._transits.pop(rank), when)
            elif when == self._due[rank]:  # else an earlier time was set since
                self._due[rank] = float("inf")
                self._step(self.ports[rank], when)
        if not all(run.done for run in runs):
            waiting = {h.source for run in runs for h in run.pending() if h.ready is None}
            raise RemoteError(f"no message ever came from ranks {sorted(waiting)}")
        return max(port.now + port.behind for port in self.ports) - start

    def _wake(self, rank: int, when: float) -> None:
        """Look at a rank at this time, if not before."""
        if when < self._due[rank]:
            self._due[rank] = when
            heapq.heappush(self._queue, (when, rank))

    def _step(self, port: SimPort, when: float) -> None:
        port.wait(when)
        if any(run.advance() for run in list(port.active)):
            self._wake(port.rank, port.now)
        elif port.active:
            self._wake(port.rank, max(port.wakes(), port.now))

    def send(self, port: SimPort, buffer: Any, dest: int, tag: int) -> Message:
        message = Message(buffer, port.rank)
        link, latency, bandwidth = self._path(port.rank, dest, port.rank)
        begin = max(port.now, self._out[link])
        self.carried[link] += message.nbytes
        message.ready = self._out[link] = begin + message.nbytes / bandwidth
        transit = Transit(message, dest)
        self._number -= 1
        self._transits[self._number] = transit
        heapq.heappush(self._queue, (begin + latency, self._number))
        port.carry(message.nbytes, dest)
        key = (port.rank, dest, tag)
        self._sent[key].append(transit)
        self._match(key)
        return message

    def receive(self, port: SimPort, buffer: Any, source: int, tag: int) -> Message:
        message = Message(buffer, source)
        key = (source, port.rank, tag)
        self._awaited[key].append((message, port.now))
        self._match(key)
        return message

    def _match(self, key: Any) -> None:
        if self._sent[key] and self._awaited[key]:
            transit, (awaited, posted) = self._sent[key].popleft(), self._awaited[key].popleft()
            sent = transit.sent
            if sent.nbytes > awaited.nbytes:
                raise RemoteError(
                    f"rank {key[0]} sent {sent.nbytes} bytes to rank {key[1]}, which expects {awaited.nbytes}"
                )
            if hasattr(awaited.buffer, "dtype"):
                awaited.buffer[: sent.nbytes] = sent.buffer
            transit.awaited, transit.posted = awaited, posted
            self._deliver(transit)

    def _arrive(self, transit: Transit, when: float) -> None:
        """The first byte is there: the receiver's link takes messages in the order in which they come."""
        link, _, bandwidth = self._path(transit.sent.source, transit.dest, transit.dest)
        self._in[link] = max(when, self._in[link]) + transit.sent.nbytes / bandwidth
        transit.arrival = self._in[link]
        self.ports[transit.dest].carry(transit.sent.nbytes, transit.sent.source)
        self._deliver(transit)

    def _deliver(self, transit: Transit) -> None:
        if transit.awaited is not None and transit.arrival is not None:
            transit.awaited.ready = max(transit.arrival, transit.posted)
            self._wake(transit.dest, max(self.ports[transit.dest].wakes(), transit.awaited.ready))

    def _path(self, source: int, dest: int, end: int) -> tuple[int, float, float]:
        """The link at one end, its latency and its bandwidth."""
        net = self.network
        if self.nodes[source] == self.nodes[dest]:
            return self.size + end, net.local_latency, net.local_bandwidth
        return self.nodes[end], net.latency, net.bandwidth


class Costed:
    """A job whose work takes virtual time on its rank."""

    def __init__(self, job: Any, port: SimPort, costs: Costs):
        self._job, self._port, self._costs = job, port, costs
        self._item = KINDS[job.kind].storage.itemsize

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._job, name)
        if name not in WORK:
            return verb

        def work(*args: Any) -> Any:
            self._port.spend(amount(name, args) * self._item / getattr(self._costs, WORK[name]))
            return verb(*args)

        return work

    def among(self, rank: int, size: int) -> Costed:
        return Costed(self._job.among(rank, size), self._port, self._costs)
