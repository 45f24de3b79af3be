"""Whether MPI takes the memory of a GPU. Nobody is asked to try: a wrong yes is a crash, so what is unknown counts as no."""

from __future__ import annotations

import ctypes
import os
from functools import cache

from mpi4py import MPI

_SWITCHES = ("MPICH_GPU_SUPPORT_ENABLED", "I_MPI_OFFLOAD")  # of Cray's MPI and of Intel's


def cuda_aware() -> bool:
    """MPICOMP_CUDA_AWARE=0|1 if it is set, else what the MPI library says of itself."""
    given = os.environ.get("MPICOMP_CUDA_AWARE")
    if given is None:
        return _says()
    if given not in ("0", "1"):
        raise ValueError(f"MPICOMP_CUDA_AWARE={given!r} must be 0 or 1")
    return given == "1"


@cache
def _says() -> bool:
    for library in (None, MPI.__file__):
        try:
            query = ctypes.CDLL(library).MPIX_Query_cuda_support  # Open MPI, MPICH
        except (OSError, AttributeError):
            continue
        query.restype, query.argtypes = ctypes.c_int, ()
        return bool(query())
    return any(os.environ.get(name) == "1" for name in _SWITCHES)
