"""What Reduce_scatter, Allgather, Bcast and Reduce have in common: how one is planned, and what MPI does instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from .. import agreement, buffers
from ..arrays import KINDS, Flat
from ..checks import number, whole
from ..codecs.raw import Raw
from ..fusion import Fused, FusedReduction
from ..planning import FLOOR, LEAST, MPI_SUMS
from ..ports.mpi import MPIPort, port_of
from ..schedules.cuts import Cuts, chunks, segment_for, slices
from ..settings import SettingError, Settings
from . import base


@dataclass(frozen=True)
class Plan:
    """What is done. `algorithm` "raw" is MPI's own collective, "copy" is for a rank that is alone."""

    algorithm: str
    settings: Settings
    schedule: Optional[Callable[..., Iterator[Any]]] = None
    cuts: Sequence[Cuts] = ()
    options: Mapping[str, int] = field(default_factory=dict)
    depth: int = 4

    def lanes(self, port: Any, job: Any, tag: int) -> Iterator[Iterator[Any]]:
        if self.algorithm == "copy":
            yield job.copy()
        elif self.schedule is not None:
            for lane, cuts in enumerate(self.cuts):
                yield self.schedule(port, job, cuts, tag + lane, **self.options)


class Family(base.Call):
    """One collective of the family. A subclass says what its arguments are; `_settle` does the rest."""

    algorithms: Mapping[str, Callable[..., Iterator[Any]]] = {}
    sums = True  # whether there are sums, which travel by the down-link codec
    alike = True  # whether the ranks' buffers are, so that each knows what the others do

    def __init__(self, port: MPIPort, settings: Settings, *args: Any):
        raise NotImplementedError

    @classmethod
    def concerns(cls, *args: Any) -> bool:
        """Whether this is for a codec, by its operation and type; all ranks must find the same."""
        raise NotImplementedError

    @classmethod
    def prepare(cls, comm: Any, args: Sequence[Any], changes: Mapping[str, Any]) -> Optional[Family]:
        """A checked call, or None where it is MPI's as it is."""
        changes = base.settings_of(comm, cls.name, changes)
        spec = args[1] if buffers.in_place(args[0]) else args[0]
        if not cls.concerns(*args) or base.left_to_mpi(comm, changes.values(), spec, unasked=not cls.alike):
            return None
        port = port_of(comm)
        with base.telling(port):
            given = changes.get("algorithm")
            if given is not None and given not in ("auto", "raw", *cls.algorithms):
                known = ", ".join(("auto", "raw", *cls.algorithms))
                raise SettingError(f"{cls.name} has no algorithm named {given!r} (known: {known})")
            if not cls.sums and given is None and changes.get("codec") is None:
                changes = {**changes, "codec": "raw", "algorithm": "auto"}  # only sums are rounded unasked
            return cls(port, comm._settings.override(**changes), *args)

    def _settle(
        self,
        port: MPIPort,
        settings: Settings,
        x: Union[Flat, list[Flat]],
        out: Union[Flat, list[Flat]],
        root: Optional[int] = None,
    ) -> None:
        """Plan for an array of which each rank owns an equal share, or for one array for each rank."""
        if root is not None and not 0 <= whole("root", root) < port.size:
            raise ValueError(f"root={root} is not one of the ranks 0 to {port.size - 1}")
        flats = x if isinstance(x, list) else [x]
        kind, nbytes = flats[0].kind, sum(flat.nbytes for flat in flats)
        algorithm, settings = self._choose(settings, kind, nbytes, port.size)
        grain = max(settings.codec.grain, settings.down.grain)
        if isinstance(x, list) and isinstance(out, list):
            self.make, self.x, self.out = FusedReduction, Fused(x, grain), Fused(out, grain)
            ranges = [(start, start + flat.n) for start, flat in zip(self.x.starts, x)]
        else:
            self.x, self.out = x, out
            ranges = chunks(self.x.n, port.size, grain)
        wire = settings.wire(sum(flat.n for flat in flats), kind)
        segment = (settings.segment or segment_for(nbytes, wire, port.size)) // KINDS[kind].storage.itemsize
        cuts = slices(ranges, grain, max(segment, LEAST) // port.size)
        options = {} if root is None else {"root": root}
        self.port, self.settings = port, settings
        self.plan = Plan(algorithm, settings, self.algorithms.get(algorithm), cuts, options)
        at = "" if root is None else f", root={root}"
        self.signature = (
            f"{self.name}({self.x}{at}, codec={settings.codec}, down={settings.down}, algorithm={algorithm}, "
            f"seed={settings.seed}, segment={segment})"
        )
        self.digest = agreement.digest(self.signature)

    def _choose(self, settings: Settings, kind: str, nbytes: int, p: int) -> tuple[str, Settings]:
        """The algorithm and its codecs. One that this collective does not have stands for its default."""
        if not self.sums:
            settings = settings.override(codec=settings.codec)
        name = settings.algorithm if settings.algorithm in self.algorithms else self.default(p)
        able = kind in settings.codec.kinds and kind in settings.down.kinds
        if p == 1:
            return "copy", settings
        if settings.algorithm not in ("auto", "raw"):
            settings.codec.carry(kind)
            settings.down.carry(kind)
            return name, settings
        small = nbytes < number("MPICOMP_FLOOR", FLOOR)
        if settings.algorithm == "auto" and able and not small and settings.codec != Raw():
            return name, settings
        if kind in MPI_SUMS:
            return "raw", settings
        return name, settings.override(codec=Raw())  # MPI cannot add it, mpi4py not even send it

    def default(self, p: int) -> str:
        return "direct"
