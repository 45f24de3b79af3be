"""What was measured, as a table, as the OSU benchmarks print it, as CSV or as JSON; and how far it is."""

from __future__ import annotations

import csv
import json
import math
import sys
from typing import Any, Callable, Mapping, NamedTuple, Optional

from ..terminal import watched

# The columns of the OSU benchmarks
LATENCY = {
    "avg_us": "Avg Latency(us)",
    "min_us": "Min Latency(us)",
    "max_us": "Max Latency(us)",
    "iterations": "Iterations",
}
OVERLAP = {
    "total_us": "Overall(us)",
    "compute_us": "Compute(us)",
    "time_us": "Pure Comm.(us)",
    "overlap": "Overlap(%)",
}


class Column(NamedTuple):
    """A column of the table: what it is called, how wide it is, how its cells look."""

    head: str
    width: int
    show: Callable[[Any], str] = str


def digits(n: int, factor: float = 1.0) -> Callable[[Any], str]:
    """n significant digits of factor * value, without an exponent from 1e-3 to 1e9; a dash for None."""

    def show(value: Any) -> str:
        if value is None:
            return "-"
        value *= factor
        if value and not 1e-3 <= abs(value) < 1e9:
            return f"{value:.{n - 1}e}"
        return f"{value:.{max(n - len(str(int(abs(value)))), 0)}f}" if abs(value) >= 1 else f"{value:#.{n}g}"

    return show


def _finite(value: Any) -> Any:
    """JSON has no other numbers."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Report:
    """Rows as they come, on rank 0 alone; `close` writes what can be written only at the end."""

    def __init__(self, columns: Mapping[str, Column], facts: Mapping[str, Any], arguments: Any, rank: int = 0):
        self.columns, self.facts, self.rank = columns, dict(facts), rank
        self.format, self.file = arguments.format, arguments.output_file
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._csv = csv.DictWriter(sys.stdout, list(columns), extrasaction="ignore", lineterminator="\n")
        if self._speaks("table", "osu"):
            self._print(*(f"# {name}: {value}" for name, value in facts.items()), "")
        if self._speaks("table"):
            self._line({key: column.head for key, column in columns.items()}, plain=True)
        if self._speaks("csv"):
            self._csv.writeheader()

    def row(self, cells: Mapping[str, Any]) -> None:
        self.rows.append(dict(cells))
        if self._speaks("table"):
            self._line(cells)
        if self._speaks("csv"):
            self._csv.writerow(cells)
            sys.stdout.flush()

    def note(self, text: str) -> None:
        """What a reader must know besides, once."""
        if text not in self.notes:
            self.notes.append(text)

    def close(self) -> None:
        rows = [{key: _finite(value) for key, value in row.items()} for row in self.rows]
        content = {**self.facts, "rows": rows, "notes": self.notes}
        if self._speaks("osu"):
            self._osu()
        if self._speaks("json"):
            self._print(json.dumps(content, indent=1, allow_nan=False))
        if self._speaks("table", "osu") and self.notes:
            self._print("", *(f"# {note}" for note in self.notes))
        if self.rank == 0 and self.file:
            with open(self.file, "w") as file:
                json.dump(content, file, indent=1, allow_nan=False)

    def _speaks(self, *formats: str) -> bool:
        return self.rank == 0 and self.format in formats

    def _line(self, cells: Mapping[str, Any], plain: bool = False) -> None:
        shown = (
            (cells[key] if plain else column.show(cells[key]), column.width) for key, column in self.columns.items()
        )
        self._print("  ".join(f"{text:>{width}}" for text, width in shown).rstrip())

    def _osu(self) -> None:
        """A block of lines for each of what was compared, plain MPI first."""
        heads = OVERLAP if "overlap" in self.columns else LATENCY
        blocks: dict[str, dict[int, list[Any]]] = {}
        for row in self.rows:
            what = row.get("collective", "Iallreduce")
            if "raw_avg_us" in row:
                plain = [row.get(f"raw_{key}", row[key]) for key in heads]
                blocks.setdefault(f"{what}, MPI alone", {}).setdefault(row["size"], plain)
            block = blocks.setdefault(f"{what}, {row['codec']}, {row['algorithm']}", {})
            block[row["size"]] = [row[key] for key in heads]
        for name, lines in blocks.items():
            self._print(f"# {name}", f"{'# Size':<10}" + "".join(f"{head:>20}" for head in heads.values()))
            for size, cells in lines.items():
                shown = (str(cell) if isinstance(cell, int) else f"{cell:.2f}" for cell in cells)
                self._print(f"{size:<10}" + "".join(f"{text:>20}" for text in shown))
            self._print("")

    @staticmethod
    def _print(*lines: str) -> None:
        print(*lines, sep="\n", flush=True)


class Bar:
    """A progress bar on stderr, if somebody watches or `force` says so; gone when a line is to be printed."""

    def __init__(self, total: int, rank: int = 0, force: bool = False):
        self.total, self.done = max(total, 1), 0
        self._shown = rank == 0 and (force or watched())

    def step(self, what: Optional[str] = None) -> None:
        """Show what is measured now; without it, one more is done."""
        if what is None:
            self.done += 1
        if self._shown:
            filled = 30 * self.done // self.total
            text = f"[{'#' * filled}{'.' * (30 - filled)}] {what} ..." if what else ""
            print(f"\r\033[K{text[:79]}", end="", file=sys.stderr, flush=True)
