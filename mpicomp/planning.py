"""What to do with an array: which algorithm, which segments, or MPI untouched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Iterator, Optional

from . import tuning
from .arrays import KINDS
from .checks import number
from .codecs.lowrank import LowRank
from .codecs.raw import Raw
from .codecs.zstd import Zstd
from .schedules import ALLREDUCE, OWNERS, check, facts, parse
from .schedules.cuts import segment_for, segments
from .schedules.lowrank import lowrank
from .settings import SettingError, Settings
from .timing import Table

SMALL = 4096  # bytes up to which auto is MPI untouched, whatever the network
FLOOR = 256 << 10  # the same where no times are known
CANDIDATES = [
    "raw",
    *(name for name in ALLREDUCE if name != "server"),
]  # of auto; there one rank's link carries everything
NEAR = 40 << 20  # bytes of a segment where ranks see each other's memory, and there is no transfer to overlap with
LEAST = 4096  # values of one segment: with fewer, messages cost more than what they carry
MPI_SUMS = ("f32", "f64")  # what every MPI can add itself


@dataclass(frozen=True)
class Plan:
    """What is done for n values of a kind on p ranks, and why. `algorithm` "raw" is MPI's own collective,
    "copy" is for a rank that is alone."""

    algorithm: str
    why: str
    n: int
    kind: str
    p: int
    settings: Settings
    segment: int = NEAR
    table: Optional[Table] = None
    shapes: tuple[tuple[int, ...], ...] = ()  # of the arrays, where they count
    depth: int = 4  # segments under way at a time
    nodes: Optional[int] = None  # on which the ranks are; None: not known, one rank on each
    measured: tuple[str, ...] = ()  # the ways of lowrank's two sums; none: not measured

    def lanes(self, port: Any, job: Any, tag: int) -> Iterator[Iterator[Any]]:
        """The schedule of each segment, to be run by the engine; none where the plan is raw."""
        if self.algorithm == "copy":
            yield job.copy()
        if self.algorithm in ("copy", "raw"):
            return
        if self.algorithm == "lowrank":
            yield lowrank(port, job, tag, self.ways)
            return
        grain = self.settings.grain
        name, options = parse(self.algorithm)
        owners = OWNERS[name](port, **options) if name in OWNERS else self.p
        segment = max(self.segment // KINDS[self.kind].storage.itemsize // self.p, LEAST // owners) * owners
        for lane, cuts in enumerate(segments(self.n, owners, grain, segment)):
            yield ALLREDUCE[name](port, job, cuts, tag + lane, **options)

    @property
    def raw_bytes(self) -> int:
        return self.n * KINDS[self.kind].storage.itemsize

    @property
    def sides(self) -> list[int]:
        """Bytes of each of lowrank's two sums."""
        sides = zip(*map(self.settings.codec.sides, self.shapes))  # type: ignore[attr-defined]
        return [sum(numbers) * KINDS[self.kind].accumulator.itemsize for numbers in sides]

    @property
    def ways(self) -> tuple[str, ...]:
        """How lowrank's two sums travel."""
        return self.measured or tuple(facts.exact(self.p, nbytes) for nbytes in self.sides)

    @property
    def wire_bytes(self) -> int:
        """Bytes that the busiest rank sends (between nodes)."""
        if self.algorithm in ("copy", "raw"):
            return round(2 * (self.p - 1) / max(self.p, 1) * self.raw_bytes)
        up, down = self.settings.codec, self.settings.down
        if self.algorithm == "lowrank":
            return round(sum(facts.sent(way, self.p, each, each) for way, each in zip(self.ways, self.sides)))
        name, p = self._senders()
        if name == "hierarchical" and p == 1:  # nothing leaves the node
            return round(2 * (self.p - 1) / self.p * self.raw_bytes)
        return round(facts.sent(name, p, up.expected(self.n, self.kind), down.expected(self.n, self.kind)))

    @property
    def expected_error(self) -> Optional[float]:
        """A bound on the relative error (rms) of the sum of p independent arrays of the same size, where codecs state one."""
        if self.algorithm in ("copy", "raw"):
            return 0.0
        if self.algorithm == "lowrank":
            return 1.0
        (name, p), up, down = self._senders(), self.settings.codec, self.settings.down
        if name == "hierarchical" and p == 1:
            return 0.0
        if up != down:
            return facts.variance(name, p, up.omega(self.n), down.omega(self.n)) ** 0.5
        once, each = up.omegas(self.n)
        return ((once + 1) * (facts.variance(name, p, each, each) + 1) - 1) ** 0.5

    def _senders(self) -> tuple[str, int]:
        """The algorithm, and how many ranks, or nodes where it has such, send compressed data; at most all."""
        name, options = parse(self.algorithm)
        if name != "hierarchical":
            return name, self.p
        if "nodes_of" in options:
            return name, -(-self.p // options["nodes_of"])
        return name, self.nodes or self.p

    def __str__(self) -> str:
        lines = [
            f"{self.n} values of {KINDS[self.kind].label} ({self.raw_bytes:,} bytes) on {self.p} ranks",
            f"algorithm: {self.algorithm}, because {self.why}",
        ]
        error = f"relative error of the sum at most {self.expected_error:.2g} (rms)" if self.expected_error else "exact"
        lines.append(f"each rank sends about {self.wire_bytes:,} bytes; {error}")
        if any(isinstance(codec, Zstd) for codec in (self.settings.codec, self.settings.down)):
            lines.append(
                "what zstd makes of wires depends on the values: bytes, and measured times, are those of normal ones"
            )
        if self.table is not None:
            times = self.table.ranking(self.raw_bytes, self.table.points)
            lines.append("expected: " + ", ".join(f"{name} {_time(seconds)}" for name, seconds in times))
        return "\n".join(lines)


def choose(
    settings: Settings,
    n: int,
    kind: str,
    p: int,
    table: Optional[Table] = None,
    shapes: tuple[tuple[int, ...], ...] = (),
    near: bool = False,
    nodes: Optional[int] = None,
) -> Plan:
    """The same decision on every rank: it depends on nothing but its arguments and the environment. `near` ranks see
    each other's memory."""
    if "lowrank" in (settings.codec.name, settings.down.name, settings.algorithm):
        return _lowrank(settings, n, kind, p, shapes)
    settings = _carried(settings, kind)
    nbytes = n * KINDS[kind].storage.itemsize
    segment = settings.segment or (min(nbytes, NEAR) if near else segment_for(nbytes, settings.wire(n, kind), p))
    depth = 1 if near else 4

    def plan(algorithm: str, why: str) -> Plan:
        if settings.feedback and algorithm == "raw":  # MPI's own remembers nothing; ours can do the same
            return Plan("direct", why, n, kind, p, settings.override(codec=Raw()), segment, table, (), depth, nodes)
        if settings.feedback == "ef21" and algorithm != "direct":
            raise SettingError(f"feedback='ef21' needs algorithm 'direct', not {algorithm!r}, because {why}")
        return Plan(algorithm, why, n, kind, p, settings, segment, table, (), depth, nodes)

    if p == 1:
        return Plan("copy", "there is one rank", n, kind, p, settings, segment, table)
    if settings.algorithm not in ("auto", "raw"):
        check(settings.algorithm, p)
        return plan(settings.algorithm, "it was asked for")
    rule = tuning.rule(nbytes, ("raw", *ALLREDUCE)) if settings.algorithm == "auto" else None
    if kind not in MPI_SUMS:
        why = f"MPI cannot add {KINDS[kind].label}"
        return plan("direct", why) if rule in (None, "raw") else plan(rule, "MPICOMP_ALLREDUCE says so")
    if settings.algorithm == "raw":
        return plan("raw", "it was asked for")
    if isinstance(settings.codec, Raw) and isinstance(settings.down, Raw):
        return plan("raw", "the codec is raw")
    if kind not in settings.codec.kinds or kind not in settings.down.kinds:
        return plan("raw", f"codec {settings.codec} cannot carry {KINDS[kind].label}")
    if rule is not None:
        return plan(rule, "MPICOMP_ALLREDUCE says so")
    if nbytes <= SMALL:
        return plan("raw", f"up to {SMALL:,} bytes nothing can be gained")
    if settings.feedback == "ef21":
        return plan("direct", "feedback 'ef21' needs it")
    if table is not None:
        best = table.ranking(nbytes, CANDIDATES)[0][0]
        return plan(best, f"it is the fastest by times {table.source}")
    floor = number("MPICOMP_FLOOR", FLOOR)
    if nbytes < floor:
        return plan("raw", f"it is under {floor:,} bytes and nothing was measured yet")
    return plan("direct", f"it is at least {floor:,} bytes and nothing was measured yet")


def _lowrank(settings: Settings, n: int, kind: str, p: int, shapes: tuple[tuple[int, ...], ...]) -> Plan:
    """Factors if an array is a matrix that is worth them, else exact."""
    codec, asked = settings.codec, settings.algorithm
    if not isinstance(codec, LowRank) or codec != settings.down:
        raise SettingError(
            f"algorithm 'lowrank' and codec 'lowrank' go together, both ways; not {codec}, {settings.down}"
        )
    if asked not in ("auto", "raw", "lowrank"):
        raise SettingError(f"codec {codec} travels by algorithm 'lowrank', not by {asked!r}")
    if settings.feedback == "ef21":
        raise SettingError("feedback='ef21' is not for codec lowrank, which has a residual of its own: feedback=True")
    small = asked == "auto" and n * KINDS[kind].storage.itemsize <= SMALL
    if asked == "raw" or small or not any(map(codec.matrix, shapes)):
        exact = settings.override(codec=Raw(), algorithm="raw" if kind in MPI_SUMS else "direct")
        return replace(choose(exact, n, kind, p), why=f"no array is a matrix worth factors of rank {codec.rank}")
    why = "factors have fewer numbers" if asked == "auto" else "it was asked for"
    return Plan("lowrank" if p > 1 else "copy", why, n, kind, p, settings, shapes=shapes)


def has_choice(settings: Settings, nbytes: int, kind: str, p: int) -> bool:
    """Whether the algorithm is to be chosen by measured times."""
    if settings.algorithm != "auto":
        return False
    plan = choose(settings, nbytes // KINDS[kind].storage.itemsize, kind, p, Table("", {"raw": [(1, 1.0)]}))
    return plan.why.startswith("it is the fastest")


def has_ways(plan: Plan) -> bool:
    """Whether lowrank's sums have a choice: on two ranks gathering sends no more, and takes a step less."""
    return plan.algorithm == "lowrank" and plan.p > 2


def _carried(settings: Settings, kind: str) -> Settings:
    """With an algorithm asked for, codecs must carry the kind; what auto cannot compress and MPI cannot add goes raw."""
    able = kind in settings.codec.kinds and kind in settings.down.kinds
    if able:
        return settings
    if settings.algorithm not in ("auto", "raw"):
        settings.codec.carry(kind)
        settings.down.carry(kind)
    return settings if kind in MPI_SUMS else settings.override(codec=Raw())


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
