"""mpicomp bench neighbor: Neighbor_allgather on a graph, compressed and by the same MPI alone on the same graph."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from . import options
from .family import call_trials
from .sweep import Collective, sweep

GRAPHS = ("ring", "torus", "grid", "hypercube", "exponential", "complete", "star")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_collective(parser)
    parser.add_argument("--graph", choices=GRAPHS, default="ring", help="who is whose neighbour (ring)")


def run(arguments: argparse.Namespace) -> None:
    from mpi4py import MPI

    from ... import topocomm

    plain = MPI.COMM_WORLD
    graph = getattr(topocomm, arguments.graph)(plain)
    sweep(arguments, plain, [_neighbor(graph, plain)], call_trials(arguments, graph))


def _neighbor(graph: Any, plain: Any) -> Collective:
    """busbw counts what the rank with most neighbours sends. Nothing is sent to itself, or beyond the ends of a grid."""
    alone = graph._handle(graph)  # the same graph, by MPI itself
    sources, nobody = graph._sources(), (None, plain.rank)
    most = max(plain.allgather(len(set(graph._destinations()).difference(nobody))))
    rows = [row for row, source in enumerate(sources) if source not in nobody]

    def call(comm: Any, x: np.ndarray, out: np.ndarray, **how: Any) -> None:
        (alone if comm is plain else comm).Neighbor_allgather(x, out, **how)

    return Collective("Neighbor_allgather", call, most, most, lambda n: (n, (len(sources), n)), "own", rows)
