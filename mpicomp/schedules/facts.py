"""What each allreduce algorithm costs and how wrong it is, in numbers: for plans, predictions, documents and tests.

`name` is an algorithm's, `p` the number of ranks (for `hierarchical`: of nodes), `nodes_of` how many of them, one after
the other, share a node and its link.
"""

from __future__ import annotations

from typing import NamedTuple

GATHERED = 64 << 10  # bytes that take no longer than a step where links are not slow


def steps(name: str, p: int) -> int:
    """Messages that follow one another from the first to the last."""
    core = p.bit_length() - 1
    return {
        "direct": 2,
        "ring": 2 * (p - 1),
        "halving": 2 * core + 2 * (p > 1 << core),
        "gather": 1,
        "server": 2,
        "hierarchical": 4,
    }[name]


def exact(p: int, nbytes: float) -> str:
    """How factors are summed where that was not measured: gathering takes a step less and half of the messages."""
    return "gather" if p == 2 or (p - 1) * nbytes <= GATHERED else "direct"


def hops(name: str, p: int, nodes_of: int = 1) -> tuple[int, int]:
    """How many of the steps go to another node, and how many stay within one."""
    nodes = -(-p // nodes_of)
    if name == "hierarchical":
        return (2 if p > 1 else 0), 2
    if nodes == 1:
        return 0, steps(name, p)
    far = {"ring": 2 * min(nodes, p - 1), "halving": steps(name, nodes)}.get(name, steps(name, p))
    return far, steps(name, p) - far


def sent(name: str, p: int, up: float, down: float, nodes_of: int = 1) -> float:
    """Bytes that leave the busiest node, up and down being those of the whole array in each codec."""
    here = min(nodes_of, p)  # ranks of the busiest node
    if name == "gather":
        return here * (p - here) * up
    if name == "server":
        return max((p - here) * down, here * up)
    if name == "ring":
        return (p - 1) / p * (up + down) if here < p else 0.0
    core = 1 << (p.bit_length() - 1)
    if name == "halving":
        kept = min(here / core, 1.0)
        return here * ((1 - kept) * (up + down) + (down if p > core else 0))
    return here * (p - here) / p * (up + down)


def passed(name: str, p: int, up: float, down: float, nodes_of: int = 1) -> float:
    """Bytes that pass a link one after the other from the first step to the last, where nothing is cut into segments."""
    both = sent(name, p, up, down, nodes_of)
    if name == "server":
        return both + max(p - nodes_of, 0) * up
    return both + (min(nodes_of, p) * up if name == "halving" and p & (p - 1) else 0.0)


class Work(NamedTuple):
    """What the busiest rank reads, in arrays: to be encoded, to be summed, to be decoded; and its messages, both ways."""

    encode: float
    reduce: float
    decode: float
    messages: int


def work(name: str, p: int) -> Work:
    """Of `hierarchical`, what a leader does between the nodes."""
    if name == "gather":
        return Work(1, p + 1, 0, 2 * (p - 1))
    if name == "server":
        return Work(1, p, 1, 2 * (p - 1))
    if name == "ring":
        return Work(1 / p, 2 * (p - 1) / p, 1, 4 * (p - 1))
    if name == "halving":
        return _halving_work(p)
    return Work((p - 1) / p, 1, 1, 4 * (p - 1))


def _halving_work(p: int) -> Work:
    """In each halving the wires of all halvings before are summed; a guest's array is one wire more."""
    k = p.bit_length() - 1
    guest = p > 1 << k
    terms = [(step + guest, 0.5**step) for step in range(1, k + 1)]
    encoded = sum(share for count, share in terms if count == 1)
    summed = sum(count * share for count, share in terms if count > 1) + (k + 1 + guest) * 0.5**k
    return Work(encoded, summed, 1, 4 * k + 2 * guest)


def variance(name: str, p: int, up: float, down: float) -> float:
    """E|error|^2 / |sum|^2 for p independent arrays of the same size, where the codecs' omega are up and down.

    Each encoding adds omega times the square of what it encodes, the errors in it included.
    """
    if name == "gather":
        return up
    before = {"ring": _ring, "halving": _halving}.get(name, _direct)(p, up) / p
    return before + down * (1 + before)


def _direct(p: int, omega: float) -> float:
    return (p - 1) * omega


def _ring(p: int, omega: float) -> float:
    error = 0.0
    for ranks in range(1, p):
        error += omega * (ranks + error)
    return error


def _halving(p: int, omega: float) -> float:
    core = 1 << (p.bit_length() - 1)
    sums = [(2, omega) if r + core < p else (1, 0.0) for r in range(core)]  # ranks in a sum, its error
    while len(sums) > 1:  # the one half is encoded and joins the other; on the average over the owners, either
        half = len(sums) // 2
        sums = [_join(sums[i], sums[i + half], omega) for i in range(half)]
    return sums[0][1]


def _join(a: tuple[int, float], b: tuple[int, float], omega: float) -> tuple[int, float]:
    return a[0] + b[0], a[1] + b[1] + omega * (a[0] + b[0] + a[1] + b[1]) / 2
