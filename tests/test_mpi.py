"""The suite in tests/mpi, started under mpiexec on several numbers of ranks, with every MPI that is installed.

All of it on 1, 2, 4 and 7 ranks of MPICH and on 2 of Open MPI; elsewhere what depends on the MPI most.
"""

from __future__ import annotations

import launch
import pytest

RUNS = [(library, n) for library in ("mpich", "openmpi") for n in (1, 2, 3, 4, 7)] + [("impi", 3)]
ALL = [("mpich", 1), ("mpich", 2), ("mpich", 4), ("mpich", 7), ("openmpi", 2)]
CORE = [
    f"tests/mpi/test_{name}.py" for name in ("allreduce", "errors_protocol", "neighbor", "requests", "shared_memory")
]


@pytest.mark.parametrize("library, n", RUNS)
def test_the_mpi_suite_passes(library, n):
    if not launch.available(library):
        pytest.skip(f"no environment with {library} (make test makes it)")
    tests = ["tests/mpi"] if (library, n) in ALL else CORE
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", *tests]
    print(launch.mpirun(n, *suite, library=library, limit=600, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"))
