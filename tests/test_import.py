"""Importing mpicomp does nothing: no MPI, no framework, no threads, no library, and it is quick to say so."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mpicomp


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout


def test_import_loads_no_mpi_and_no_framework_and_starts_no_thread():
    loaded = python(
        "import sys, threading, os, mpicomp\n"
        "print([m for m in ('mpi4py.MPI', 'torch', 'cupy', 'ml_dtypes', 'networkx', 'matplotlib') if m in sys.modules])\n"
        "print(threading.active_count(), len(os.listdir('/proc/self/task')) if os.path.exists('/proc/self/task') else 1)\n"
        "print('libmpicomp' in open('/proc/self/maps').read() if os.path.exists('/proc/self/maps') else False)\n"
    ).splitlines()
    assert loaded[0] == "[]"
    assert loaded[1].split()[0] == "1"
    assert loaded[2] == "False"


def test_codecs_work_without_mpi():
    code = (
        "import sys, numpy, mpicomp; mpicomp.codec('natural').encode(numpy.ones(3)); print('mpi4py.MPI' in sys.modules)"
    )
    assert python(code).strip() == "False"


@pytest.mark.parametrize("name", mpicomp.__all__)
def test_every_public_name_is_there(name):
    assert getattr(mpicomp, name) is not None


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'allgather'"):
        mpicomp.allgather  # noqa: B018
