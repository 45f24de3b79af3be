"""The suite in tests/mpi, started under mpiexec on several numbers of ranks, with every MPI that is installed.

All of it on 1, 2, 3, 4 and 7 ranks of MPICH and on 2, 3 and 4 of Open MPI; on 7 of that, and on Intel MPI, what depends on
the MPI most.

Once more with arrays of a GPU in place of NumPy's: on CuPy's stand-in (see emulation/README.md) or, marked gpu, on a GPU.
"""

from __future__ import annotations

import os

import launch
import pytest

WHOLE = {"mpich": (1, 2, 3, 4, 7), "openmpi": (2, 3, 4)}
CORE = [
    f"tests/mpi/test_{name}.py" for name in ("allreduce", "errors_protocol", "neighbor", "requests", "shared_memory")
]


RUNS = [(library, n, ["tests/mpi"]) for library, ranks in WHOLE.items() for n in ranks]


@pytest.mark.parametrize("library, n, tests", [*RUNS, ("openmpi", 7, CORE), ("impi", 3, CORE)])
def test_the_mpi_suite_passes(library, n, tests):
    if not launch.available(library):
        pytest.skip(f"no environment with {library} (make test makes it)")
    print(run(n, tests, library))


def run(n, tests, library="mpich", **variables):
    """What rank 0 prints."""
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:logging", "--color=no", *tests]
    return launch.mpirun(n, *suite, library=library, limit=600, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **variables)


TORCH = ["--ignore=tests/mpi/test_torch.py", "--ignore=tests/mpi/test_torch_tensors.py"]  # tensors of the CPU
ON_GPU = {  # ranks, whose arrays, whether MPI is CUDA-aware, tests
    "staged": (2, "cupy", "0", ["tests/mpi", *TORCH]),
    "staged on 3": (3, "cupy", "0", ["tests/mpi", *TORCH]),
    "CUDA-aware": (2, "cupy", "1", ["tests/mpi/test_device.py", "tests/mpi/test_requests.py"]),
    "some ranks": (3, "mixed", "0", ["tests/mpi/test_allreduce.py", "tests/mpi/test_gossip.py"]),
    "some ranks, CUDA-aware": (2, "mixed", "1", ["tests/mpi/test_shared_memory.py"]),
}  # fmt: skip
each_way = pytest.mark.parametrize("n, arrays, aware, tests", ON_GPU.values(), ids=ON_GPU)


@each_way
def test_the_mpi_suite_passes_with_what_stands_for_a_gpu(n, arrays, aware, tests):
    paths = os.pathsep.join([str(launch.ROOT / "tests" / "emulation" / "standin"), str(launch.ROOT)])
    device = {"PYTHONPATH": paths, "MPICOMP_TEST_ARRAYS": arrays, "MPICOMP_TEST_KERNELS": "c"}
    print(run(n, tests, **device, MPICOMP_CUDA_AWARE=aware))


@pytest.mark.gpu
@each_way
def test_the_mpi_suite_passes_on_a_gpu(n, arrays, aware, tests):
    """All of it. CUDA-aware only if this MPI says so: else it would crash."""
    given = {"MPICOMP_CUDA_AWARE": "0"} if aware == "0" else {}
    print(run(n, tests, MPICOMP_TEST_ARRAYS=arrays, MPICOMP_TEST_LONG="1", **given))
