"""torch.distributed under mpirun: who is who comes from MPI."""

from __future__ import annotations

import os
import socket
from typing import Any, Optional

import torch.distributed as dist
from mpi4py import MPI

from ..errors import RemoteError
from ..ports.mpi import MPIPort, port_of


def init_process_group(comm: Optional[MPI.Comm] = None, backend: str = "gloo", **settings: Any) -> None:
    """torch's init_process_group with the ranks of `comm` (COMM_WORLD unless given). Collective.

    Rank 0 opens a port that is free and tells the others. Its address is MASTER_ADDR if that is set, the loopback where
    all ranks are on one host, else its host name. settings go to torch.
    """
    port = port_of(MPI.COMM_WORLD if comm is None else comm)
    store = _serve(port) if port.rank == 0 else _join(port)
    dist.init_process_group(backend, store=store, rank=port.rank, world_size=port.size, **settings)


def _serve(port: MPIPort) -> dist.TCPStore:
    here = "127.0.0.1" if port.count_hosts() == 1 else socket.gethostname()
    host, address = os.environ.get("MASTER_ADDR", here), ""
    try:
        store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        address = f"{host} {store.port}"
    finally:  # the others wait for an answer, whatever it is
        port.share(address.encode())
    return store


def _join(port: MPIPort) -> dist.TCPStore:
    port.count_hosts()
    address = port.share(b"").decode().split()
    if not address:
        raise RemoteError("rank 0 failed: it could not open a port")
    return dist.TCPStore(address[0], int(address[1]), is_master=False)
