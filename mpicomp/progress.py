"""A thread that lets non-blocking collectives make progress while the caller computes.

It starts with the first non-blocking collective, where MPI was initialised with THREAD_MULTIPLE (mpi4py's default), and
sleeps while none is under way. Without it (another thread level, MPICOMP_PROGRESS=0) progress is made in Test and Wait.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import Any, Optional

from mpi4py import MPI

from .engine import Run

NAP = 200e-6  # seconds between two looks when nothing moved;
LONGEST = 1e-3  # the longer it lasts the fewer: a look takes its time from the caller, and the system sends what it has


def watch(run: Run) -> None:
    """Let the thread see to this run, if there may be one."""
    global _THREAD
    if run.done or not running():
        return
    with _LOCK:
        if _THREAD is None or _THREAD.pid != os.getpid():  # a fork has no threads
            _THREAD = _Progress()
    _THREAD.add(run)


def running() -> bool:
    """Whether runs that are watched make progress by themselves."""
    return os.environ.get("MPICOMP_PROGRESS", "1") != "0" and MPI.Query_thread() == MPI.THREAD_MULTIPLE


class _Progress(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="mpicomp-progress", daemon=True)
        self.pid = os.getpid()
        self.runs: list[Run] = []
        self.wake = threading.Condition()
        self.stopped = False
        self.start()
        atexit.register(self.stop)

    def add(self, run: Run) -> None:
        with self.wake:
            self.runs.append(run)
            self.wake.notify()

    def stop(self) -> None:
        """Before MPI is finalised."""
        if self.pid == os.getpid():
            with self.wake:
                self.stopped = True
                self.wake.notify()
            self.join()

    def run(self) -> None:
        nap = NAP
        while not self.stopped:
            with self.wake:
                self.runs = [run for run in self.runs if not run.done]
                if not self.runs:
                    self.wake.wait(1.0)
                    continue
                ports = {id(run.port): run.port for run in self.runs}
            if any([_advance(port) for port in ports.values()]):
                nap = NAP
            else:
                time.sleep(nap)
                nap = min(1.2 * nap, LONGEST)


def _advance(port: Any) -> bool:
    """One step on a port, unless somebody waits there and makes the steps."""
    if not port.lock.acquire(blocking=False):
        return False
    try:
        moved = any([run.advance() for run in list(port.active)])
        if moved:
            port.busy()
        elif port.active:
            port.idle(port.active[0])  # nobody else may be waiting who would hear of another rank's failure
        return moved
    except BaseException as error:  # whoever waits for the run gets it
        port.fail(error, told=False)
        return False
    finally:
        port.lock.release()


_LOCK = threading.Lock()
_THREAD: Optional[_Progress] = None
