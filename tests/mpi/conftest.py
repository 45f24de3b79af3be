"""The suite that runs on every rank: mpiexec -n 4 python -m pytest tests/mpi

Rank 0 prints; the others write to files. The first failure on any rank is shown by that rank and ends all of them. A rank
that hangs shows where, after LIMIT seconds in one test, and ends all.

With MPICOMP_TEST_ARRAYS=cupy all arrays are on a GPU, or on what stands for one: see ../emulation/mirrors.py. Tests
marked `long` then run only with MPICOMP_TEST_LONG=1.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest
from _pytest.config import create_terminal_writer
from mpi4py import MPI

import mpicomp
from mpicomp.ports.mpi import port_of

LIMIT = float(os.environ.get("MPICOMP_TEST_LIMIT", 60))
WORLD = MPI.COMM_WORLD
ARRAYS = os.environ.get("MPICOMP_TEST_ARRAYS", "numpy")
_log = None

if ARRAYS == "cupy" or (ARRAYS == "mixed" and WORLD.rank % 2):
    sys.path.append(str(Path(__file__).parent.parent / "emulation"))
    import mirrors

    mirrors.install()


@pytest.hookimpl(trylast=True)  # the reporter must be there
def pytest_configure(config):
    global _log
    _log = os.fdopen(os.dup(2), "w")
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if WORLD.rank and reporter is not None:
        folder = Path(os.environ.get("MPICOMP_TEST_LOGS") or tempfile.mkdtemp())
        _log = open(folder / f"rank {WORLD.rank}", "w", buffering=1)  # noqa: SIM115
        reporter._tw = create_terminal_writer(config, _log)


def pytest_collection_modifyitems(config, items):
    """Some tests are marked with the numbers of ranks that they are for, some as not for arrays of a GPU."""
    left_out = [] if ARRAYS == "numpy" else ["host"] if os.environ.get("MPICOMP_TEST_LONG") == "1" else ["host", "long"]
    for item in list(items):
        marked = item.get_closest_marker("ranks")
        elsewhere = marked is not None and WORLD.size not in marked.args
        if elsewhere or any(item.get_closest_marker(name) for name in left_out):
            items.remove(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    faulthandler.dump_traceback_later(LIMIT, exit=True, file=_log)
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_runtest_logreport(report):
    if report.failed:
        print(f"\nrank {WORLD.rank} of {WORLD.size}: {report.nodeid}\n{report.longreprtext}", file=_log, flush=True)
        for title, text in report.sections:
            print(f"{title}:\n{text}", file=_log, flush=True)
        if WORLD.size > 1:
            time.sleep(0.5)  # others that fail too can say so
            sys.stdout.flush()
            WORLD.Abort(1)


@pytest.fixture
def comm():
    """A compressed duplicate of COMM_WORLD whose calls are never too small to be compressed."""
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    yield comm
    comm.Free()


@pytest.fixture
def curious(monkeypatch):
    """Ranks that wait ask the others sooner what they do: 20 times a second to begin with instead of 4, which is only for
    the sake of messages. Tests of what is found by asking would wait for it."""
    monkeypatch.setattr("mpicomp.ports.alarm._ASK_AFTER", 0.05)


@pytest.fixture
def hurry():
    """hurry(comm, seconds): from now on MPICOMP_TIMEOUT is that short. Calls before have all the time that a busy machine
    may need."""

    def hurry(comm, seconds):
        alarm = port_of(comm)._alarm
        assert alarm.timeout == float(os.environ["MPICOMP_TIMEOUT"])
        alarm.timeout, alarm._first_ask = seconds, seconds / 4

    return hurry
