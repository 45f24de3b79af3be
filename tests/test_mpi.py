"""The suite in tests/mpi, started under mpiexec on several numbers of ranks, with every MPI that is installed."""

from __future__ import annotations

import launch
import pytest

RUNS = [(library, n) for library in ("mpich", "openmpi") for n in (1, 2, 3, 4, 7)] + [("impi", 3)]


@pytest.mark.parametrize("library, n", RUNS)
def test_the_mpi_suite_passes(library, n):
    if not launch.available(library):
        pytest.skip(f"no environment with {library} (make test makes it)")
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/mpi"]
    if library == "impi" or (library, n) == ("openmpi", 4):
        suite += ["--ignore-glob=*torch*"]  # what torch does is the same with every MPI
    print(launch.mpirun(n, *suite, library=library, limit=600, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"))
