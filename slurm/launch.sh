# shellcheck shell=bash
# Sourced by the batch scripts: how the ranks of a job are started.
#
# LAUNCH is srun (the site's default PMI) unless given: "srun --mpi=pmix", "srun --mpi=pmi2", mpirun, mpiexec.
# Afterwards "${launch[@]}" PROGRAM... starts one rank for each task. Stops the job if the ranks do not find each other.

export LAUNCH=${LAUNCH:-srun}
read -ra launch <<<"$LAUNCH"
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1} # srun does not take it from sbatch
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SRUN_CPUS_PER_TASK}
export MPICOMP_NUM_THREADS=${MPICOMP_NUM_THREADS:-$SRUN_CPUS_PER_TASK}

"${launch[@]}" python slurm/check_ranks.py "$SLURM_NTASKS" || exit 1
