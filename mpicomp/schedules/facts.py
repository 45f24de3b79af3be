"""What each allreduce algorithm costs and how wrong it is, in numbers: for plans, documents and tests.

`name` is an algorithm's, `p` the number of ranks (for `hierarchical`: of nodes).
"""

from __future__ import annotations


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


def sent(name: str, p: int, up: float, down: float) -> float:
    """Bytes that the busiest rank (node) sends, up and down being those of the whole array in each codec."""
    if name == "gather":
        return (p - 1) * up
    if name == "server":
        return max((p - 1) * down, up)
    core = 1 << (p.bit_length() - 1)
    if name == "halving":
        return (core - 1) / core * (up + down) + (down if p > core else 0)
    return (p - 1) / p * (up + down)


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
