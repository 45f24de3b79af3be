"""WHAT A PERSISTENT COLLECTIVE REMEMBERS from one start to the next. One idea a file; arrays and counters only, no MPI."""
