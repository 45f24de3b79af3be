"""What is trained: two tasks, in several ways to communicate, with several seeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterator, NamedTuple

SEEDS = (0, 1, 2)
STEPS = {"digits": 300, "text": 400}
RATES = ("100Mbit", "1Gbit")
FEEDBACK = {"feedback": True}


@dataclass(frozen=True)
class Way:
    """Ranks that average gradients (method "allreduce"), or parameters with their neighbours in a ring."""

    name: str
    ranks: int
    method: str = "allreduce"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def central(self) -> bool:
        return self.method == "allreduce"


class Training(NamedTuple):
    task: str
    way: Way
    seed: int

    @property
    def name(self) -> str:
        way = self.way.name.translate(str.maketrans({" ": "", ":": "-", "=": "-", ",": "-", "|": "-"}))
        return f"{self.task}-{self.way.ranks}-{way}-{self.seed}"


def allreduce(name: str, codec: str, ranks: int = 4, **settings: Any) -> Way:
    """Models as small as these would be left to MPI by `auto`; lowrank has one algorithm only."""
    algorithm = "auto" if codec.startswith("lowrank") else "direct"
    return Way(name, ranks, settings={"codec": codec, "algorithm": algorithm, **settings})


def ring(name: str, method: str, **settings: Any) -> Way:
    return Way(name, 8, method, settings)


CENTRAL = [
    allreduce("fp32", "raw"),
    *(allreduce(codec, codec) for codec in ("natural", "natural:bits=8", "natural-dithering:bits=4", "qsgd:bits=4")),
    allreduce("topk:ratio=0.01|natural, feedback", "topk:ratio=0.01|natural", **FEEDBACK),
    allreduce("sign, feedback", "sign", **FEEDBACK),
    allreduce("lowrank:rank=2, feedback", "lowrank:rank=2", **FEEDBACK),
]
RING = [
    allreduce("allreduce", "raw", ranks=8),
    ring("d-psgd", "d-psgd"),
    ring("dcd, natural", "dcd", codec="natural"),
    ring("dcd, natural:bits=8", "dcd", codec="natural:bits=8"),
    ring("choco, natural", "choco", codec="natural", gamma=0.5),
    ring("choco, topk:ratio=0.01|natural", "choco", codec="topk:ratio=0.01|natural", gamma=0.04),
    ring("power-gossip", "power-gossip"),
    ring("power-gossip, 2 iterations", "power-gossip", iterations=2),
]


def trainings() -> Iterator[Training]:
    """Every way with one seed, then with the next."""
    for seed in SEEDS:
        for task in STEPS:
            for way in (*CENTRAL, *RING):
                yield Training(task, way, seed)
