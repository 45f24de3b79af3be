"""Results of measurements, as files of JSON."""

from __future__ import annotations

from typing import Any, Optional

from benchmarks.page import Folder
from mpicomp import codec
from mpicomp.cli.bench.codecs import CODECS as IN_MEMORY

from .runs import CODECS, OTHERS, RATES

VALUES = 2560 * 4096


class Results(Folder):
    """What was measured; None or an empty list for what was not."""

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Also of a run that had to be several."""
        return [
            row for part in (name, f"{name}-more", f"{name}-others") for row in (self.get(part) or {}).get("rows", [])
        ]

    def row(self, name: str, spec: str, *algorithms: str) -> Optional[dict[str, Any]]:
        """Of a codec, by the fastest of these algorithms, or of all."""
        wanted = str(codec(spec))
        rows = [row for row in self.rows(name) if row["codec"] == wanted]
        rows = [row for row in rows if not algorithms or row["algorithm"] in algorithms]
        return min(rows, key=lambda row: row["time_us"], default=None)

    def raw(self, name: str) -> Optional[float]:
        """Milliseconds of MPI alone."""
        rows = self.rows(name)
        return rows[0]["raw_us"] / 1e3 if rows else None

    def fastest_raw(self, name: str) -> Optional[float]:
        """By MPI's default or, if that was faster, by its forced ring."""
        times = [time for time in (self.raw(name), self.raw(f"{name}-ring")) if time]
        return min(times) if times else None

    def speedups(self, name: str) -> dict[str, float]:
        """Of each codec, against the faster of MPI's own."""
        raw = self.fastest_raw(name)
        found = ((spec, self.row(name, spec)) for spec in CODECS)
        return {spec: raw * 1e3 / row["time_us"] for spec, row in found if row and raw}


def spec_of(name: str) -> str:
    """With the settings that were asked for, also where they are the codec's own defaults."""
    return next((spec for spec in (*CODECS, *OTHERS, *IN_MEMORY) if str(codec(spec)) == name), name)


def wire_bytes(spec: str) -> int:
    """Of the whole array, encoded once."""
    each = codec(spec)
    return each.wire_size((2560, 4096) if each.name == "lowrank" else VALUES)


def ideal(spec: str, hosts: int, rate: str) -> float:
    """Milliseconds that the bytes alone take."""
    return 2 * (hosts - 1) / hosts * wire_bytes(spec) * 8 / RATES[rate] * 1e3
