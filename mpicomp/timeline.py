"""Timelines: what a process did when, for Perfetto or chrome://tracing. MPICOMP_TIMELINE=FILE says where."""

from __future__ import annotations

import atexit
import json
import os
import tempfile
import time
from typing import Any, Optional

from .settings import wanted

MOST = 1_000_000  # events
_EPOCH = time.time() - time.perf_counter()  # so that the timelines of several ranks fit together


class Timeline:
    """Events for one file in the trace format of Chrome and Perfetto, written at exit in one step."""

    def __init__(self, path: str, rank: int):
        self.path, self.rank = path, rank
        self.events: list[dict[str, Any]] = []
        atexit.register(self.write)

    def work(self, name: str, begin: float, end: float, values: int) -> None:
        args = {"values": values} if values else {}
        self._add(name=name, ph="X", ts=begin, dur=1e6 * (end - begin), tid=0, args=args)

    def call(self, name: str, begin: float, end: float, number: int) -> None:
        for phase, when in (("b", begin), ("e", end)):
            self._add(name=name, cat="collective", ph=phase, ts=when, id=number, tid=1)

    def _add(self, ts: float, **event: Any) -> None:
        if len(self.events) < MOST:
            self.events.append({"pid": self.rank, "ts": 1e6 * (_EPOCH + ts), **event})

    def write(self) -> None:
        folder = os.path.dirname(os.path.abspath(self.path))
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".timeline-")
        with os.fdopen(handle, "w") as file:
            json.dump({"traceEvents": self.events}, file)
        os.replace(temporary, self.path)


_TIMELINES: dict[int, Timeline] = {}


def timeline_of(rank: int) -> Optional[Timeline]:
    """The timeline of this process, if it has one."""
    name = wanted("TIMELINE")
    if not name or (rank and "%r" not in name):
        return None
    if not _TIMELINES:
        _TIMELINES[0] = Timeline(name.replace("%r", str(rank)), rank)
    return _TIMELINES[0]
