"""Results of trainings, as files of JSON."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple, Optional

from benchmarks.page import Folder

from .runs import RATES, SEEDS, Training, Way

Row = tuple[int, float, float, int]  # step, training loss, quality, bytes sent by a rank


class Final(NamedTuple):
    """Of a way, over the seeds that there are."""

    qualities: list[float]
    losses: list[float]
    sent: float

    @property
    def mean(self) -> float:
        return statistics.mean(self.qualities)

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.qualities) if len(self.qualities) > 1 else 0.0


class Results(Folder):
    def final(self, task: str, way: Way) -> Optional[Final]:
        found = [content["rows"][-1] for seed in SEEDS if (content := self.get(Training(task, way, seed).name))]
        if not found:
            return None
        _, losses, qualities, sent = zip(*found)
        return Final(list(qualities), list(losses), statistics.mean(sent))

    def network(self, rate: str) -> list[dict[str, Any]]:
        """What was measured on a network, one for each seed."""
        return [content for seed in SEEDS if (content := self.get(f"network-{rate}-{seed}"))]

    def networks(self) -> dict[str, list[dict[str, Any]]]:
        return {rate: found for rate in RATES if (found := self.network(rate))}
