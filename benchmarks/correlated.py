"""What correlated rounding gains: the error of a sum without it, divided by the error with it.

    python benchmarks/correlated.py [--values 65536] [--seeds 2]

Virtual ranks; equal: the same values on every rank; similar: common values plus a tenth of each rank's own; independent:
every rank's own. `gather` encodes each rank's values once and nothing else, `direct` also encodes the sum, in the third
lines as bf16; there the rank that adds has its own values exactly.
"""

from __future__ import annotations

import argparse

import numpy as np

from mpicomp import simulation

CODECS = ["natural", "natural-dithering:bits=4", "dithering:bits=4", "dithering:bits=2", "dithering:bits=4,p=inf"]
OWN = {"equal": 0.0, "similar": 0.1, "independent": None}
RANKS = (2, 4, 8, 64)


def inputs(kind: str, p: int, n: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(n)
    own = OWN[kind]
    mixed = (rng.standard_normal(n) if own is None else common + own * rng.standard_normal(n) for _ in range(p))
    return [x.astype(np.float32) for x in mixed]


HOW = {"gather": ("gather", None), "direct": ("direct", None), "direct, sums as bf16": ("direct", "bf16")}


def error(codec: str, how: str, kind: str, p: int, n: int, seeds: int) -> float:
    """Relative rms error of the sum."""
    algorithm, down = HOW[how]
    squares = 0.0
    for seed in range(seeds):
        xs = inputs(kind, p, n, seed)
        exact = np.sum(xs, axis=0, dtype=np.float64)
        result = simulation.allreduce(xs, codec=(codec, down or codec), algorithm=algorithm, seed=seed).arrays[0]
        squares += float(np.sum((result - exact) ** 2) / np.sum(exact**2))
    return (squares / seeds) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, default=65536)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    heads = [f"{kind} {p}" for kind in OWN for p in RANKS]
    print("| codec | algorithm |", " | ".join(heads), "|")
    print("|---" * (len(heads) + 2) + "|")
    for codec in CODECS:
        for algorithm in HOW:
            cells = []
            for kind in OWN:
                for p in RANKS:
                    n = arguments.values // max(p // 8, 1)
                    how = (algorithm, kind, p, n, arguments.seeds)
                    mark = "," if ":" in codec else ":"
                    gain = error(codec, *how) / error(f"{codec}{mark}correlated=true", *how)
                    cells.append(f"{gain:.2f}")
            print(f"| `{codec}` | {algorithm} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
