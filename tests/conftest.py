"""The serial suite. What needs mpirun is in tests/mpi, which test_mpi.py starts."""

from __future__ import annotations

import os

collect_ignore = ["mpi", "slurm"]  # each is started by name, with a launcher
LAST = ("test_mpi.py",)  # slow, and hard to read if something simple is broken already

for name in [name for name in os.environ if name.startswith("MPICOMP_")]:
    if name not in ("MPICOMP_CPU", "MPICOMP_NUM_THREADS") and not name.startswith("MPICOMP_TEST_"):
        del os.environ[name]  # settings of whoever starts the suite are not what it tests


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name in LAST)
