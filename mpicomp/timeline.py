"""Timelines: what a process did when, for Perfetto or chrome://tracing. MPICOMP_TIMELINE=FILE says where."""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
import time
import warnings
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
        try:
            handle, temporary = tempfile.mkstemp(dir=_folder(self.path), prefix=".timeline-")
            with os.fdopen(handle, "w") as file:
                json.dump({"traceEvents": self.events}, file)
            os.replace(temporary, self.path)
        except OSError as error:
            print(f"r{self.rank} | MPICOMP_TIMELINE: {self.path} was not written: {error}", file=sys.stderr)


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


_TIMELINES: dict[int, Timeline] = {}


def timeline_of(rank: int) -> Optional[Timeline]:
    """The timeline of this process, if it has one."""
    name = wanted("TIMELINE")
    if not name or (rank and "%r" not in name):
        return None
    if not _TIMELINES:
        path = name.replace("%r", str(rank))
        if not os.path.isdir(_folder(path)):  # no error: the other ranks would wait for this one
            text = f"MPICOMP_TIMELINE: there is no folder {_folder(path)}, no timeline is written"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return None
        _TIMELINES[0] = Timeline(path, rank)
    return _TIMELINES[0]
