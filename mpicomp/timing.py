"""How long each algorithm takes for how many bytes: measured points, and what lies between and beyond them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable

# How much of MPI's own time an algorithm may take to be preferred to it: what is exact needs a reason to be given up,
# and those that round more often than `direct` a better one. The margin also covers what noise does to one measurement.
SHARE = {"raw": 1.0, "direct": 0.9, "gather": 0.9}
ROUNDS_OFTEN = 0.86


@dataclass
class Table:
    """Points (bytes, seconds) of each algorithm, in order of bytes. `source` says where they come from."""

    source: str
    points: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def add(self, algorithm: str, nbytes: int, seconds: float) -> None:
        self.points.setdefault(algorithm, []).append((nbytes, seconds))

    def estimate(self, algorithm: str, nbytes: int) -> float:
        """Seconds: on straight lines between points, as latency and bandwidth make them; beyond, on that of the last two."""
        points = self.points[algorithm]
        if nbytes <= points[0][0] or len(points) == 1:
            return points[0][1] * max(nbytes / points[0][0], 1.0)
        for (a, s), (b, t) in zip(points, points[1:]):
            if nbytes <= b:
                return s + (t - s) * (nbytes - a) / (b - a)
        slope = max((t - s) / (b - a), 0.5 * t / b)  # noise must not make large messages free
        return t + slope * (nbytes - b)

    def ranking(self, nbytes: int, allowed: Iterable[str]) -> list[tuple[str, float]]:
        """(algorithm, seconds), the one to take first."""
        times = [(name, self.estimate(name, nbytes)) for name in allowed if name in self.points]
        return sorted(times, key=lambda item: item[1] / SHARE.get(item[0], ROUNDS_OFTEN))
