"""What to do with an array: which algorithm, which segments, or MPI untouched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Iterator, Optional

from .arrays import KINDS
from .codecs.raw import Raw
from .schedules import ALLREDUCE
from .schedules.cuts import segments
from .settings import Settings

FLOOR = 256 << 10  # bytes under which compression cannot gain
SEGMENT = 2 << 20  # bytes of one segment, all owners' parts together: stays in a core's cache
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
    segment: int = SEGMENT

    def lanes(self, port: Any, job: Any, tag: int) -> Iterator[Iterator[Any]]:
        """The schedule of each segment, to be run by the engine; none where the plan is raw."""
        if self.algorithm == "copy":
            yield job.copy()
        if self.algorithm in ("copy", "raw"):
            return
        grain = max(self.settings.codec.grain, self.settings.down.grain)
        segment = self.segment // KINDS[self.kind].storage.itemsize
        for lane, cuts in enumerate(segments(self.n, self.p, grain, segment)):
            yield ALLREDUCE[self.algorithm](port, job, cuts, tag + lane)

    @property
    def raw_bytes(self) -> int:
        return self.n * KINDS[self.kind].storage.itemsize

    @property
    def wire_bytes(self) -> int:
        """Bytes that each rank sends."""
        sent = 2 * (self.p - 1) / max(self.p, 1)
        if self.algorithm == "raw":
            return round(sent * self.raw_bytes)
        up, down = self.settings.codec, self.settings.down
        return round(sent * (up.size(self.n, self.kind) + down.size(self.n, self.kind)) / 2)

    @property
    def expected_error(self) -> Optional[float]:
        """A bound on the relative error (rms) of the sum of p independent arrays of the same size, where codecs state one."""
        if self.algorithm in ("copy", "raw"):
            return 0.0
        up, down = self.settings.codec.omega(self.n), self.settings.down.omega(self.n)
        return (up * (self.p - 1) / self.p + down * (1 + up)) ** 0.5

    def __str__(self) -> str:
        lines = [
            f"{self.n} values of {KINDS[self.kind].label} ({self.raw_bytes:,} bytes) on {self.p} ranks",
            f"algorithm: {self.algorithm}, because {self.why}",
        ]
        if self.algorithm != "raw":
            lines.append(f"codec: {self.settings.codec}, down {self.settings.down}; segments of {self.segment:,} bytes")
        lines.append(
            f"each rank sends about {self.wire_bytes:,} bytes; relative error of the sum at most {self.expected_error:.2g} (rms)"
        )
        return "\n".join(lines)


def choose(settings: Settings, n: int, kind: str, p: int) -> Plan:
    """The same decision on every rank: it depends on nothing else."""
    settings = _carried(settings, kind)
    nbytes = n * KINDS[kind].storage.itemsize

    def plan(algorithm: str, why: str) -> Plan:
        return Plan(algorithm, why, n, kind, p, settings, settings.segment or SEGMENT)

    if p == 1:
        return plan("copy", "there is one rank")
    if settings.algorithm not in ("auto", "raw"):
        return plan(settings.algorithm, "it was asked for")
    if kind not in MPI_SUMS:
        return plan("direct", f"MPI cannot add {KINDS[kind].label}")
    if settings.algorithm == "raw":
        return plan("raw", "it was asked for")
    if isinstance(settings.codec, Raw) and isinstance(settings.down, Raw):
        return plan("raw", "the codec is raw")
    if kind not in settings.codec.kinds or kind not in settings.down.kinds:
        return plan("raw", f"codec {settings.codec} cannot carry {KINDS[kind].label}")
    floor = int(os.environ.get("MPICOMP_FLOOR", FLOOR))
    if nbytes < floor:
        return plan("raw", f"it is under {floor:,} bytes")
    return plan("direct", f"it is at least {floor:,} bytes")


def _carried(settings: Settings, kind: str) -> Settings:
    """With an algorithm asked for, codecs must carry the kind; what auto cannot compress and MPI cannot add goes raw."""
    able = kind in settings.codec.kinds and kind in settings.down.kinds
    if able:
        return settings
    if settings.algorithm not in ("auto", "raw"):
        settings.codec.carry(kind)
        settings.down.carry(kind)
    return settings if kind in MPI_SUMS else settings.override(codec=Raw())
