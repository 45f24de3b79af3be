"""The suite in tests/mpi, started under mpiexec on several numbers of ranks, with every MPI that is installed.

All of it on every number of ranks with MPICH and on 2 with Open MPI; elsewhere what depends on the MPI most.
"""

from __future__ import annotations

import launch
import pytest

RUNS = [(library, n) for library in ("mpich", "openmpi") for n in (1, 2, 3, 4, 7)] + [("impi", 3)]
CORE = [
    f"tests/mpi/test_{name}.py" for name in ("allreduce", "errors_protocol", "neighbor", "requests", "shared_memory")
]


@pytest.mark.parametrize("library, n", RUNS)
def test_the_mpi_suite_passes(library, n):
    if not launch.available(library):
        pytest.skip(f"no environment with {library} (make test makes it)")
    tests = ["tests/mpi"] if library == "mpich" or (library, n) == ("openmpi", 2) else CORE
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", *tests]
    print(launch.mpirun(n, *suite, library=library, limit=600, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"))
