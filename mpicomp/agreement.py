"""Do all ranks call the same collective with the same arguments? Asked the first time a rank makes a call of that shape."""

from __future__ import annotations

import hashlib
from typing import Any, Iterator

import numpy as np
from mpi4py import MPI

from .checks import choice
from .errors import DisagreementError
from .ports.alarm import TEXT

_TEXT = 512  # bytes of a signature that are shown to the other ranks


def digest(signature: str) -> int:
    return int.from_bytes(hashlib.blake2b(signature.encode(), digest_size=8).digest(), "little")


def known(port: Any, number: int) -> bool:
    """Whether the ranks need not be asked about a signature."""
    check = checking()
    return port.size == 1 or check == "never" or (check == "first" and number in port.agreed)


def checking() -> str:
    """When the ranks are asked: MPICOMP_CHECK."""
    return choice("MPICOMP_CHECK", ("first", "always", "never"))


def agree(port: Any, signature: str, number: int, always: bool = False) -> Iterator[Any]:
    """One small exchange if this signature is new here, else nothing. All ranks raise the same error if they differ.

    MPICOMP_CHECK=always asks on every call, never on none. Calls of one signature that begin before the first of them has
    its answer share the question: which calls ask must not depend on how fast answers come.
    """
    if port.size == 1 or (not always and known(port, number)):
        return
    first = not always and checking() == "first"
    asked = port.asked.get(number) if first else None
    if asked is None:
        mine, most = np.array([number, ~number & (1 << 64) - 1], np.uint64), np.empty(2, np.uint64)
        asked = port.asked[number] = most, port.comm.Iallreduce(mine, most, MPI.MAX)
    most, question = asked
    yield [question]
    port.asked.pop(number, None)
    if most[0] == ~most[1]:
        port.agreed.add(number)
        return
    texts = np.zeros((port.size, 1 + _TEXT), np.uint8)
    yield _exchange(port, texts, bytes([len(port.active) > 1]) + signature.encode()[:_TEXT])
    error = DisagreementError(_message([row[1:].tobytes().rstrip(b"\0").decode(errors="replace") for row in texts]))
    error.settled = not texts[:, 0].any()  # else who knows what has begun besides
    raise error


def _exchange(port: Any, rows: np.ndarray, mine: bytes) -> list[Any]:
    """Every rank's row to every rank. By messages: a rank may have begun another collective, which a third would meet."""
    rows[port.rank, : len(mine)] = np.frombuffer(mine, np.uint8)
    others = [rank for rank in range(port.size) if rank != port.rank]
    comes = [port.comm.Irecv([rows[rank], MPI.BYTE], rank, TEXT) for rank in others]
    return comes + [port.comm.Isend([rows[port.rank], MPI.BYTE], rank, TEXT) for rank in others]


def _message(texts: list[str]) -> str:
    groups: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        groups.setdefault(text, []).append(rank)
    lines = [f"rank {_ranks(ranks)}: {text}" for text, ranks in groups.items()]
    return "the ranks disagree about this collective; " + "; ".join(lines)


def _ranks(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
