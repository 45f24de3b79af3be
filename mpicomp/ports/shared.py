"""Memory that the ranks of a node see of each other, so that large wires need not be copied between them.

Each rank has one anonymous file, which the others map for reading; nothing of it has a name, so nothing is left behind
however a rank ends. Where a system does not allow it, on any of the ranks, there is none.
"""

from __future__ import annotations

import mmap
import os
import secrets
from typing import Any, Optional

import numpy as np
from mpi4py import MPI

_MARK = 16  # random bytes at the beginning of each file: is it the one that was meant?


class Arena:
    """One rank's slabs, and a view of those of its node's ranks. Slabs are kept by size; when none is in use, all
    memory is free for other sizes."""

    def __init__(self, memory: np.ndarray, peers: dict[int, np.ndarray]):
        self.memory, self.peers = memory, peers
        self._begin = memory.__array_interface__["data"][0]
        self._reset()

    def _reset(self) -> None:
        self._next, self._used = _page(_MARK), 0
        self._free: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}

    def get(self, nbytes: int) -> Optional[np.ndarray]:
        """A buffer, or None if there is no room."""
        size = _page(nbytes)
        free = self._free.get(size)
        if not free and not self._used:
            self._reset()
        if free:
            at = free.pop()
        elif self._next + size <= self.memory.size:
            at, self._next = self._next, self._next + size
            self._sizes[at] = size
        else:
            return None
        self._used += 1
        return self.memory[at : at + nbytes]

    def offset(self, buffer: Any) -> Optional[int]:
        """Where a buffer begins in this rank's memory; None if it is elsewhere."""
        at = buffer.__array_interface__["data"][0] - self._begin
        return at if 0 <= at < self.memory.size else None

    def put(self, buffer: Any) -> bool:
        """Take a buffer back; False if it is not from here."""
        at = self.offset(buffer)
        if at is None:
            return False
        self._used -= 1
        self._free.setdefault(self._sizes[at], []).append(at)
        return True


def arena(comm: MPI.Intracomm, nodes: list[int], nbytes: int) -> Optional[Arena]:
    """Collective: an arena of `nbytes` on each rank, or None on all. Memory is taken when it is first written."""
    file, memory, mark = _own(nbytes)
    mine = np.frombuffer(np.array([os.getpid(), file], np.int64).tobytes() + mark, np.uint8)
    everybody = np.empty((comm.size, mine.size), np.uint8)
    comm.Allgather(mine, everybody)
    peers, able = {}, memory is not None
    for rank in range(comm.size):
        if able and rank != comm.rank and nodes[rank] == nodes[comm.rank]:
            pid, number = everybody[rank, :16].view(np.int64).tolist()
            peers[rank] = _map(pid, number, everybody[rank, 16:], nbytes)
            able = peers[rank] is not None
    all_able = np.array([able], np.int32)
    comm.Allreduce(MPI.IN_PLACE, all_able, MPI.MIN)  # now everybody has mapped everything
    if file >= 0:
        os.close(file)
    return Arena(memory, peers) if all_able[0] and memory is not None else None  # type: ignore[arg-type]


def _own(nbytes: int) -> tuple[int, Optional[np.ndarray], bytes]:
    mark = secrets.token_bytes(_MARK)
    try:
        file = os.memfd_create("mpicomp", os.MFD_CLOEXEC)
        os.ftruncate(file, nbytes)
        memory = np.frombuffer(mmap.mmap(file, nbytes), np.uint8)
    except (OSError, AttributeError):  # another system than Linux, or none to spare
        return -1, None, mark
    memory[:_MARK] = np.frombuffer(mark, np.uint8)
    return file, memory, mark


def _map(pid: int, file: int, mark: np.ndarray, nbytes: int) -> Optional[np.ndarray]:
    """A peer's memory; None if it cannot be had, or is not the peer's: process numbers may be those of a container."""
    try:
        found = os.open(f"/proc/{pid}/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            memory = np.frombuffer(mmap.mmap(found, nbytes, prot=mmap.PROT_READ), np.uint8)
        finally:
            os.close(found)
    except (OSError, ValueError):
        return None
    return memory if (memory[:_MARK] == mark).all() else None


def _page(nbytes: int) -> int:
    return -(-nbytes // 4096) * 4096
