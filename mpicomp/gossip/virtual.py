"""Gossip on virtual ranks: the same methods in one process, hundreds of workers, with a virtual clock."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from .. import settings
from ..ports.sim import Costs, Network, SimPort, Simulation
from ..topology import Topology


class VirtualComm:
    """One virtual rank's view of a graph: what a gossip method asks of a communicator."""

    def __init__(self, port: SimPort, mixing: Topology, chosen: settings.Settings, costs: Costs):
        self.rank, self.size, self.mixing = port.rank, port.size, mixing
        self._simulated, self._settings, self._costs = port, chosen, costs
        self._calls = 0

    def _port(self) -> SimPort:
        return self._simulated

    def _number(self, seed: int, given: Optional[int]) -> tuple[int, int]:
        self._calls += 1
        return seed, 0 if given is not None else self._calls - 1

    def _agreement(self, port: SimPort, signature: str) -> tuple[int, None]:
        return 0, None

    def _watch(self, name: str, x: Any, codec: Any) -> None:
        """Nobody counts."""

    def _timed(self, job: Any, port: SimPort) -> Any:
        return Timed(job, self)

    def _spend(self, work: str, nbytes: int) -> None:
        """Arithmetic on so many bytes of values."""
        self._simulated.spend(nbytes / getattr(self._costs, work))


class Timed:
    """An exchange whose encoding and decoding take virtual time."""

    def __init__(self, job: Any, comm: VirtualComm):
        self._job, self._comm = job, comm
        self._item = {"f32": 4, "f64": 8}[job.kind]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)

    def encode(self, lo: int, hi: int) -> Any:
        self._comm._spend("encode", (hi - lo) * self._item)
        return self._job.encode(lo, hi)

    def decode(self, source: int, wire: Any, lo: int, hi: int) -> None:
        self._comm._spend("decode", (hi - lo) * self._item)
        self._job.decode(source, wire, lo, hi)


class Workers:
    """A gossip method on every rank of a topology. `xs` are the workers' parameters, mixed in place.

    `seconds` is the virtual time so far, `bytes_sent` what each worker sent. method: a class or its name.
    """

    def __init__(
        self,
        method: Any,
        topology: Topology,
        xs: Sequence[Any],
        codec: Any = None,
        seed: int = 0,
        network: Network = Network(),
        costs: Costs = Costs(),
        **options: Any,
    ):
        from . import find

        if len(xs) != topology.size:
            raise ValueError(f"xs has {len(xs)} arrays; the topology has {topology.size} ranks")
        chosen = settings.make(codec, None, seed)
        self.simulation = Simulation(topology.size, network)
        self.seconds = 0.0
        comms = [VirtualComm(port, topology, chosen, costs) for port in self.simulation.ports]
        self.methods = [find(method)(comm, x, **options) for comm, x in zip(comms, xs)]

    def mix(self, xs: Sequence[Any]) -> float:
        """One averaging step of all workers; the virtual seconds it took."""
        return self._run(xs, [None] * len(xs))

    def step(self, xs: Sequence[Any], updates: Sequence[Any]) -> float:
        """Averaging and the local updates."""
        return self._run(xs, updates)

    @property
    def bytes_sent(self) -> list[int]:
        return [method.bytes_sent for method in self.methods]

    def _run(self, xs: Sequence[Any], updates: Sequence[Any]) -> float:
        took = self.simulation.run(lambda port: self.methods[port.rank].begin(xs[port.rank], updates[port.rank]))
        self.seconds += took
        return took
