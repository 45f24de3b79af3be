"""Allreduce of a list of 160 arrays, a ResNet's shapes, against one array of as many values.

mpirun -n 2 python -m benchmarks.many
"""

from __future__ import annotations

from functools import partial

import numpy as np
from mpi4py import MPI

import mpicomp
from mpicomp.cli.timing import alternate

STAGES = [(64, 3), (128, 4), (256, 6), (512, 3)]  # channels, blocks


def shapes() -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [(1000, 2048), (64, 3, 7, 7)]
    for c, blocks in STAGES:
        found += [(c, c), (c, c, 3, 3), (4 * c, c), *[(c,)] * 4, *[(4 * c,)] * 2] * blocks
    return found + [(2048,)] * (160 - len(found))


def main() -> None:
    world = MPI.COMM_WORLD
    many = [np.ones(shape, np.float32) for shape in shapes()]
    values = np.random.default_rng(world.rank).standard_normal(sum(x.size for x in many), dtype=np.float32)
    one = values.copy()

    def fill() -> None:
        """Sums in place grow: begin anew."""
        one[:] = values
        for x in many:
            x.reshape(-1)[:] = values[: x.size]

    for algorithm in ("auto", "direct"):
        add = partial(mpicomp.Comm(world, "natural", algorithm=algorithm).Allreduce, MPI.IN_PLACE)
        times = alternate({"one": partial(add, one), "many": partial(add, many)}, 11, world, clear=fill)
        if world.rank == 0:
            ratio = times["many"] / times["one"]
            print(
                f"{algorithm}: {len(many)} arrays, {one.nbytes / 1e6:.0f} MB: one {times['one'] * 1e3:.1f} ms, "
                f"many {times['many'] * 1e3:.1f} ms, {ratio:.2f} times as long",
                flush=True,
            )


if __name__ == "__main__":
    main()
