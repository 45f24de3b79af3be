"""Processes that can be recognised again.

A process is written down as "PID STARTTIME". The kernel gives no two processes the same pair between
two boots, so a process is only ever ended when it is provably the one that was written down.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Runs, and is not a zombie that waits for its parent."""
    return _stat(pid)[:1] not in ([], ["Z"])


def write(path: Path, pid: int) -> None:
    path.write_text(f"{pid} {_stat(pid)[19]}\n")


def read(path: Path) -> int | None:
    """The pid in the file if that very process still runs."""
    try:
        pid, start = path.read_text().split()
    except (OSError, ValueError):
        return None
    fields = _stat(int(pid))
    return int(pid) if fields and fields[19] == start and fields[0] != "Z" else None


def network_of(pid: int | str) -> str | None:
    """The network namespace of a process, as the kernel names it: net:[4026531840]."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def in_networks(networks: set[str]) -> list[int]:
    """Every process, other than this one, that lives in one of these network namespaces."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [pid for pid in pids if pid != os.getpid() and network_of(pid) in networks and alive(pid)]


def end(pids: Iterable[int], patience: float = 2.0) -> None:
    """Ask with SIGTERM, insist with SIGKILL after `patience` seconds, return when all are gone."""
    left = list(pids)
    for which, limit in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, which)
        stop = time.monotonic() + limit
        while (left := [pid for pid in left if not _reaped(pid)]) and time.monotonic() < stop:
            time.sleep(0.01)


def _reaped(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # ours: take the zombie away
    return not alive(pid)
