"""Stops a Slurm job whose MPI ranks have not found each other.

    $LAUNCH python slurm/check_ranks.py "$SLURM_NTASKS"

A launcher that speaks another PMI than the MPI starts n programs that each think they are alone, and succeed.
Run this with the job's own launcher before the work; the exit code is 1 if MPI has another number of ranks.
The number is an argument because SLURM_NTASKS differs inside mpirun, which counts its own daemons there.
"""

from __future__ import annotations

import os
import sys

from mpi4py import MPI

REMEDIES = {
    "Open MPI": "LAUNCH='srun --mpi=pmix' or LAUNCH=mpirun",
    "MPICH": "LAUNCH='srun --mpi=pmi2' or LAUNCH=mpiexec",
    "MVAPICH": "LAUNCH='srun --mpi=pmi2' or LAUNCH=mpiexec",
    "Intel(R) MPI": "LAUNCH='srun --mpi=pmi2' with I_MPI_PMI_LIBRARY=/path/of/libpmi2.so, or LAUNCH=mpirun",
}


def complaint(ranks: int, tasks: int, library: str) -> str:
    remedy = next((text for name, text in REMEDIES.items() if name in library), "another --mpi (srun --mpi=list)")
    alone = "every task runs alone" if ranks == 1 else "the launcher did not use the whole allocation"
    return (
        f"check_ranks: Slurm gave {tasks} tasks, but MPI has {ranks} rank{'s' * (ranks != 1)}: {alone}.\n"
        f"The MPI is {library}; the launcher was LAUNCH='{os.environ.get('LAUNCH', '')}'.\n"
        f"Try {remedy}; see slurm/README.md."
    )


def main(tasks: int) -> int:
    comm = MPI.COMM_WORLD
    library = " ".join(MPI.Get_library_version().split(",")[0].splitlines()[0].split())
    names = comm.gather(MPI.Get_processor_name())
    first = comm.rank == 0 and os.environ.get("SLURM_PROCID", "0") == "0"  # of n lonely ranks one speaks
    if first and comm.size != tasks:
        print(complaint(comm.size, tasks, library), file=sys.stderr, flush=True)
    elif first:
        print(f"{comm.size} ranks on {len(set(names or []))} nodes, {library}", flush=True)
    return int(comm.size != tasks)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
