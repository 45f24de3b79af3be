"""WHERE MESSAGES GO: mpi4py on a private communicator, or virtual ranks with a virtual clock."""
