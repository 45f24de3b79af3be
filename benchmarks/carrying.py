"""What a byte costs the cores of this machine on its way through the emulated network, by plain blocking sockets.

    mpiexec ... python -m benchmarks.carrying      inside a lab, one rank a host

Every host sends to the next ones, 1 or all; what the cores did meanwhile, except for waiting, is of the bytes. Half of it
counts for each end.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

PORT = 5100
PIECE = 1 << 20
SECONDS = 0.75  # of each host's link
IDLE, WAITING, STOLEN = 3, 4, 7  # among the times of the first line of /proc/stat


def ticks() -> np.ndarray:
    """What the cores did since they started, in hundredths of a second."""
    return np.array(Path("/proc/stat").read_text().splitlines()[0].split()[1:9], float)


def measure(world: MPI.Intracomm, flows: int) -> float:
    """Seconds of a core for a byte that is sent, or received, while every host sends to its next `flows` ones. Collective."""
    pieces = max(round(SECONDS * int(os.environ["NETLAB_BANDWIDTH"]) / 8 / flows / PIECE), 1)
    with socket.create_server(("", PORT)) as server:
        meet(world)
        before = ticks()
        threads = [
            threading.Thread(target=send, args=((world.rank + step) % world.size, pieces))
            for step in range(1, flows + 1)
        ]
        for thread in threads:
            thread.start()
        threads += [threading.Thread(target=receive, args=(server.accept()[0],)) for _ in range(flows)]
        for thread in threads[flows:]:
            thread.start()
        for thread in threads:
            thread.join()
        meet(world)
    spent = ticks() - before
    busy = spent.sum() - spent[[IDLE, WAITING, STOLEN]].sum()
    return world.bcast(busy / 100 / (2 * world.size * flows * pieces * PIECE))


def meet(world: MPI.Intracomm) -> None:
    """A barrier that leaves the cores alone."""
    request = world.Ibarrier()
    while not request.Test():
        time.sleep(0.01)


def send(rank: int, pieces: int) -> None:
    piece = bytes(PIECE)
    with socket.create_connection((f"h{rank + 1}", PORT)) as connection:
        for _ in range(pieces):
            connection.sendall(piece)


def receive(connection: socket.socket) -> None:
    room = bytearray(PIECE)
    with connection:
        while connection.recv_into(room):
            pass


if __name__ == "__main__":
    for flows in sorted({1, MPI.COMM_WORLD.size - 1}):
        cost = measure(MPI.COMM_WORLD, flows)
        if MPI.COMM_WORLD.rank == 0:
            print(f"to {flows} others: {1e9 * cost:.2f} ns of a core for a byte, at each end")
