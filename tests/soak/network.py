"""Bad networks: python tests/soak/network.py PYTHON, as root. 3 hosts at 100 Mbit/s with loss, jitter, and a link cut for 5 s.

PYTHON is that of an environment with an MPI. Results must be right, and nothing may hang.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.netlab.lab import Lab  # noqa: E402

PROGRAM = """
import sys, time, numpy as np
from mpi4py import MPI
import mpicomp
comm = mpicomp.Comm(MPI.COMM_WORLD, "raw")
until, calls = time.monotonic() + float(sys.argv[1]), 0
go = np.ones(1, "i4")
while go[0]:
    for algorithm in ("direct", "ring", "gather"):
        x = np.full(50_000, comm.rank + calls, "f4")
        comm.Allreduce(MPI.IN_PLACE, x, algorithm=algorithm)
        assert (x == comm.size * calls + comm.size * (comm.size - 1) / 2).all()
        calls += 1
    go[0] = time.monotonic() < until
    comm.Bcast(go)
if comm.rank == 0:
    print(f"{calls} collectives, all right", flush=True)
"""


def main(python: str) -> None:
    with Lab(hosts=3, bandwidth="100Mbit") as lab:
        for name, trouble in {"loss": loss, "jitter": jitter, "cut": cut}.items():
            stop = threading.Event()
            thread = threading.Thread(target=trouble, args=(lab, stop))
            thread.start()
            begin = time.monotonic()
            result = lab.run([python, "-c", PROGRAM, "8"], timeout=90)
            stop.set()
            thread.join()
            print(f"{name}: exit {result.returncode} after {time.monotonic() - begin:.1f} s", flush=True)
            assert result.returncode == 0


def loss(lab: Lab, stop: threading.Event) -> None:
    lab.loss("1%")
    stop.wait()
    lab.loss(None)


def jitter(lab: Lab, stop: threading.Event) -> None:
    for delay in ("1ms", "8ms", "3ms", "12ms") * 100:
        lab.delay(delay)
        if stop.wait(0.3):
            break
    lab.delay(None)


def cut(lab: Lab, stop: threading.Event) -> None:
    if not stop.wait(4):
        lab.cut("h2")
        stop.wait(5)
        lab.restore("h2")


if __name__ == "__main__":
    main(sys.argv[1])
