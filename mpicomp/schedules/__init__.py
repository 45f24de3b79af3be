"""HOW MESSAGES TRAVEL. One algorithm a file, each a generator that yields the messages it waits for.

A schedule knows ranks, ranges of elements and bytes; it sees no framework, no bits and no MPI. `port` sends and
receives, `job` encodes, sums and decodes ranges. Several lanes (segments of one collective) run at once.
"""

from .direct import direct

ALLREDUCE = {"direct": direct}
