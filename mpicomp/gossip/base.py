"""What all gossip methods share: `mix`, `step`, the exchange of ranges with the neighbours, counting and saving.

A method runs wherever its communicator is: on MPI (mpicomp.ring(comm), ...) or on virtual ranks (virtual.py).
"""

from __future__ import annotations

from typing import Any, Iterator, Optional

import numpy as np

from .. import engine
from ..arrays import KINDS, Flat, settle
from ..codecs import Codec, Raw
from ..codecs.base import Stream, add, difference, multiply
from ..collectives.base import telling
from ..engine import Run
from ..errors import CodecError
from ..exchange import Exchange, Link
from ..job import Randomness
from ..memory.state import checked, write
from ..ports.device import in_turn, port_for
from ..schedules.cuts import segment_for
from ..schedules.neighbor import neighbor
from ..topology import Topology, TopologyError, portable
from ..watching import WatchedPort
from .layout import Layout

_STAGE = 3  # of the random numbers of the first call; later calls count on


class _Making(type):
    """A rank on which a method cannot be made tells the others, which would wait for it."""

    def __call__(cls, comm: Any, *args: Any, **settings: Any) -> Any:
        comm = comm if hasattr(comm, "_agreement") else _refined(comm)
        with telling(comm._port()):
            made = super().__call__(comm, *args, **settings)
            settle(made.layout.like)
            return made


class Gossip(metaclass=_Making):
    """A way to average with the neighbours in a graph. `params` is like what will be mixed: an array, list or dict.

    Subclasses define `_values` (what is sent for a range of x) and `_take` (what is done with a wire; this rank's own
    comes first). Costs: one encoding, one message to each neighbour.
    """

    update_first = True  # where the method wants the local update: before the averaging or after it
    exact_start = False  # whether the first call sends the values themselves, so that all replicas start right

    def __init__(
        self, comm: Any, params: Any, codec: Any = None, *, seed: Optional[int] = None, segment: Optional[int] = None
    ):
        self._comm = comm
        self._settings = self._comm._settings.override(codec=codec, seed=seed, segment=segment)
        self.topology: Topology = self._comm.mixing
        self.rank = self._comm.rank
        self.neighbors = self.topology.neighbors[self.rank]
        self.weights = self.topology.weights[self.rank]
        self.layout = Layout(params)
        self.kind = self.layout.kind
        self.bytes_sent = 0
        self.calls = 0
        self._number = self._comm._number(self._settings.seed, seed)
        self._usual, self._start = self._link(self.codec), self._link(Raw())

    @property
    def codec(self) -> Codec:
        return self._settings.codec

    # What users call

    def mix(self, x: Any) -> None:
        """One averaging step with the neighbours, in place. x is written at the end: after an error it is what it was."""
        engine.wait(self.begin(x))

    def step(self, x: Any, update: Any) -> None:
        """Averaging plus the local update (-lr * gradient), in place, in the method's own order."""
        engine.wait(self.begin(x, update))

    def begin(self, x: Any, update: Any = None) -> Run:
        """mix or step as a Run, for who drives several at once."""
        port = self._comm._port()
        with telling(port):
            flats, changes = self.layout.flats(x), None
            if update is not None:
                changes = self.layout.flats(update, "update")
                self.layout.in_order(x, update)
            port = port_for(port, self.layout.like)
            watch = self._comm._watch(type(self).__name__, self.layout, self.codec)
            port = port if watch is None else WatchedPort(port, watch)
            with in_turn(self.layout.like):
                lanes, finish = self._prepare(port, flats, changes if self.update_first else None)

        def end(error: Optional[BaseException]) -> None:
            if error is None:
                finish()
                self.calls += 1
                if changes is not None and not self.update_first:
                    self.layout.add(flats, changes)

        digest, check = self._comm._agreement(port, f"{self}")
        tag = port.tag(digest + self.calls)  # ranks that count differently must not take each other's
        ended = end if watch is None else watch.finish(end)
        return Run(port, (lane(tag + i) for i, lane in enumerate(lanes)), prologue=check, finish=ended, tag=tag)

    def __str__(self) -> str:
        of = f"seed={self._number[0]}, segment={self._settings.segment}, graph={self.topology.fingerprint}"
        return f"{type(self).__name__}({self.layout}, {self._describe()}, {of}: {self.layout.words})"

    # Saving

    def _arrays(self) -> dict[str, np.ndarray]:
        """What the method remembers, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that is remembered: save each rank's own, and restore all of them."""
        settle(self.layout.like)
        saved = {name: array.copy() for name, array in self._arrays().items()}
        counts = {"calls": self.calls, "seed": self._number[0], "number": self._number[1], "rank": self.rank}
        return {"method": type(self).__name__, **counts, **saved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict gave. A state that does not fit is an error, and changes nothing."""
        mine = self._arrays()
        found = checked(state, mine, ["calls", "seed", "number", "rank"], "method", method=type(self).__name__)
        if found["rank"] != self.rank:
            raise ValueError(f"this state is of rank {found['rank']}; this is rank {self.rank}")
        settle(self.layout.like)
        self.calls, self._number = found["calls"], (found["seed"], found["number"])
        write(found, mine)
        settle(self.layout.like)

    def reset(self) -> None:
        """Forget everything, on every rank."""
        settle(self.layout.like)
        self.calls = 0
        self._forget()
        settle(self.layout.like)

    # What a method defines

    def _forget(self) -> None:
        for array in self._arrays().values():
            array[:] = 0

    def _describe(self) -> str:
        return f"codec={self.codec}"

    def _values(self, x: np.ndarray, lo: int, hi: int) -> np.ndarray:
        raise NotImplementedError

    def _take(self, x: np.ndarray, source: int, wire: Any, lo: int, hi: int) -> None:
        raise NotImplementedError

    def _close(self, x: np.ndarray, lo: int, hi: int) -> None:
        """Everybody's range was taken."""

    def _begun(self, source: int, values: np.ndarray, lo: int, hi: int) -> None:
        """Values of the exact start."""

    # The exchange

    def _prepare(self, port: Any, flats: list[Flat], changes: Optional[list[Flat]]) -> tuple[Any, Any]:
        """(lanes, each a function of a tag; what to do when all are through). `changes` come before the averaging."""
        x = self.layout.vector(flats)
        if changes is not None:
            self.layout.add(self.layout.parts(x), changes)
        jobs: list[Exchange] = []
        if self.neighbors:
            seed, number = self._number
            stream = Randomness(seed, number, port.rank, port.size).stream(self.codec, _STAGE + self.calls, 0)
            if self.exact_start and not self.calls:
                jobs.append(_Start(self, self.layout.vector(flats), self._start, stream, port.pool))
            jobs.append(_Mix(self, x, self._usual, stream, port.pool))
        depth = max((job.depth for job in jobs), default=0)
        timed = [self._comm._timed(job, port) for job in jobs]

        def lane(number: int) -> Any:
            def run(tag: int) -> Iterator[Any]:
                for job in timed:
                    yield from neighbor(port, job, number, tag)

            return run

        def finish() -> None:
            self.bytes_sent += sum(job.bytes_sent for job in jobs)
            self.layout.store(x, flats)

        return (lane(number) for number in range(depth)), finish

    def _link(self, codec: Codec) -> Link:
        codec.carry(self.kind)
        n, item = self.layout.n, KINDS[self.kind].storage.itemsize
        segment = self._settings.segment or segment_for(n * item, self.codec.size(n, self.kind))  # of both links
        ranks = (*self.neighbors, self.rank)
        lengths, codecs = dict.fromkeys(ranks, n), dict.fromkeys(ranks, codec)
        return Link(
            self.rank,
            self.topology.size,
            self.neighbors,
            self.neighbors,
            lengths,
            codecs,
            self.kind,
            segment,
            grain=self.codec.grain,
        )

    def _pull(self, estimates: dict[int, np.ndarray], lo: int, hi: int) -> np.ndarray:
        """sum_j w_ij (estimate_j - estimate_i): exactly 0 where all are equal."""
        mine = estimates[self.rank][lo:hi]
        total = np.zeros_like(mine)
        for r in self.neighbors:
            apart = difference(estimates[r][lo:hi], mine)
            multiply(apart, self.weights[r])
            add(total, apart)
        return total


class _Mix(Exchange):
    def __init__(self, method: Gossip, x: np.ndarray, link: Link, stream: Stream, pool: Any):
        super().__init__(link, stream, pool)
        self._method, self._x, self.like = method, x, x

    def values(self, lo: int, hi: int) -> Flat:
        return Flat(self._method._values(self._x, lo, hi), self.kind)

    def take(self, source: int, wire: Any, lo: int, hi: int) -> None:
        self._method._take(self._x, source, wire, lo, hi)

    def close(self, lo: int, hi: int) -> None:
        self._method._close(self._x, lo, hi)


class _Start(_Mix):
    def close(self, lo: int, hi: int) -> None:
        pass

    def values(self, lo: int, hi: int) -> Flat:
        return Flat(self._x[lo:hi], self.kind)

    def take(self, source: int, wire: Any, lo: int, hi: int) -> None:
        self._method._begun(source, wire.view(self._x.dtype), lo, hi)


def contraction(codec: Codec, n: int) -> tuple[float, Optional[float]]:
    """(scale, delta): E|scale C(x) - x|^2 <= (1 - delta)|x|^2; delta is None where no such bound is known.

    An unbiased codec of variance omega is scaled by 1 / (1 + omega), which makes a contraction of it.
    """
    omega = codec.omega(n)
    if codec.unbiased and np.isfinite(omega):
        return 1 / (1 + omega), 1 / (1 + omega)
    return 1.0, 1 - omega if omega < 1 else None


def safe_rate(topology: Topology, codec: Codec, n: int) -> float:
    """CHOCO's proven consensus rate for this graph and codec. Small: larger ones often work, and are faster."""
    delta = contraction(codec, n)[1]
    if delta is None:
        raise CodecError(f"no bound is known for the relative error of codec {str(codec)!r}: give gamma")
    gap, b = topology.spectral_gap, topology.roughness
    if gap <= 0:
        raise TopologyError("no rate is proven for these weights, whose spectral gap is 0: give gamma")
    return portable(gap**2 * delta / (16 * gap + gap**2 + 4 * b**2 + 2 * gap * b**2 - 8 * gap * delta))


def _refined(comm: Any) -> Any:
    from ..topocomm import _refined

    return _refined(comm)
