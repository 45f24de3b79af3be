"""Random numbers of mpicomp as an endless stream of bytes, for a battery of statistical tests to read.

    python benchmarks/rng_battery.py one [seed] | dieharder -a -g 200
    python benchmarks/rng_battery.py many       | dieharder -a -g 200
    python benchmarks/rng_battery.py raw        | dieharder -a -g 200

one: a single stream, in order. many: a group of 64 draws from each of 4096 streams in turn (the keys of 16 seeds,
16 calls, 8 ranks and 2 stages), then the next group of each. raw: the same with the keys 0, 1, 2, ..., which are
never used but show whether neighbouring keys are told apart by the generator alone.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np

from mpicomp.reference.rng import GROUP, groups, lanes, stream_key


def one(key: int, size: int = 4096):
    for first in itertools.count(0, size * GROUP):
        yield lanes(*groups(key, first, size))


def many(keys: list, ahead: int = 64):
    """Groups g of every key, then g + 1 of every key, ...; `ahead` groups of a key are made at a time."""
    for first in itertools.count(0, ahead * GROUP):
        a, b = (np.stack(words, axis=1) for words in zip(*(groups(key, first, ahead) for key in keys)))
        for i in range(ahead):
            yield lanes(a[i], b[i])


def main() -> None:
    mode, seed = (sys.argv[1:] + ["0"])[:2]
    grid = itertools.product(range(16), range(16), range(8), range(2))
    streams = {
        "one": lambda: one(stream_key(int(seed))),
        "many": lambda: many([stream_key(*words) for words in grid]),
        "raw": lambda: many(list(range(4096))),
    }
    try:
        for block in streams[mode]():
            sys.stdout.buffer.write(block.tobytes())
    except BrokenPipeError:
        sys.stderr.close()  # the reader has had enough


if __name__ == "__main__":
    main()
