"""What was sent and where the time went: `comm.stats`, a summary at exit, a line a call, a timeline.

Calls and bytes are always counted. Times are taken where MPICOMP_STATS=1 (rank 0 prints a table at exit; `all`: every
rank), MPICOMP_DEBUG=1 (a line on stderr for each call) or MPICOMP_TIMELINE=FILE (a trace for Perfetto or
chrome://tracing; %r in the name stands for the rank, without it rank 0 alone writes) is set when a communicator makes its
first collective, or after `comm.stats.timed = True`. Otherwise nothing is wrapped and no clock is read.
"""

from __future__ import annotations

import atexit
import sys
from dataclasses import dataclass, field
from typing import Any, Optional

from .settings import wanted
from .watching import Row, Watch


@dataclass
class Stats:
    """The calls of one communicator on this rank: `rows` by (collective, algorithm, codec), `total` of all.

    Left out are calls that are not for a codec and, where no times are taken, most that are too small for one.
    """

    rank: int = 0
    timed: bool = field(default_factory=lambda: any(map(wanted, ("STATS", "DEBUG", "TIMELINE"))))
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    wire_bytes: int = 0  # sent by this rank

    def __post_init__(self) -> None:
        if wanted("STATS") == "all" or (wanted("STATS") and self.rank == 0):
            atexit.register(lambda: self.rows and sys.stderr.write(f"{self}\n"))

    @property
    def calls(self) -> int:
        return self.total.calls

    @property
    def raw_bytes(self) -> int:
        return self.total.raw_bytes

    @property
    def total(self) -> Row:
        """All rows in one."""
        total = Row()
        for row in self.rows.values():
            total.add(row)
        total.wire_bytes = self.wire_bytes
        return total

    def reset(self) -> None:
        self.rows.clear()
        self.wire_bytes = 0

    def __str__(self) -> str:
        lines = [["", "calls", "raw MB", "wire MB", "ms", "codec", "transfer", "waiting"]]
        named = sorted(((_words(key), row) for key, row in self.rows.items()), key=lambda item: item[0])
        for name, row in (*named, ("all", self.total)):
            numbers = [row.raw_bytes / 1e6, row.wire_bytes / 1e6]
            numbers += [1e3 * seconds for seconds in (row.seconds, row.codec, row.transfer, row.waiting)]
            known = 2 if name == "all" else 1  # of what is always counted
            cells = [f"{number:.2f}" if self.timed or k < known else "-" for k, number in enumerate(numbers)]
            lines.append([name, str(row.calls), *cells])
        widths = [max(map(len, column)) for column in zip(*lines)]
        for line in lines:
            line[:] = [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]
        return "\n".join(f"r{self.rank} | {'  '.join(line)}" for line in lines)

    def count(self, call: Any) -> Optional[Watch]:
        """Note that a call starts; with times, what watches it."""
        return self.note(call.name, call.x, call.plan.algorithm, call.settings.codec)

    def note(self, name: str, x: Any, algorithm: str, codec: Any) -> Optional[Watch]:
        """The same, of a collective of x."""
        raw = algorithm == "raw"
        row = self.rows.setdefault((name, algorithm, None if raw else codec), Row())
        row.calls += 1
        row.raw_bytes += x.nbytes
        if not self.timed:
            return None
        what = f"{name} {x} {algorithm if raw else f'{codec} {algorithm}'}"
        if raw and wanted("DEBUG"):
            sys.stderr.write(f"r{self.rank} | {what}: left to MPI\n")  # one write, so that ranks share no line
        return None if raw else Watch(self.rank, row, what)


def _words(key: tuple[Any, ...]) -> str:
    return " ".join(str(word) for word in key if word is not None)
