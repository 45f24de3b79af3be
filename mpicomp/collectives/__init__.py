"""The collectives, one a file: what is compressed and what goes to MPI untouched, and how a call becomes a Run."""
