"""Decentralized training: every rank talks to its neighbours in a graph only, and nobody waits for everybody.

mpirun -n 4 python examples/train_decentralized.py
mpirun -n 8 python examples/train_decentralized.py --topology ring --method choco --codec sign --set gamma=0.1
mpirun -n 8 python examples/train_decentralized.py --topology torus --method power-gossip --set rank=2
"""

from __future__ import annotations

import argparse
import ast
from typing import Any

import common
from mpi4py import MPI

import mpicomp
from mpicomp.torch import DecentralizedOptimizer, broadcast_parameters

GRAPHS = ("ring", "torus", "grid", "hypercube", "exponential", "complete", "star")


def setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a number or a quoted text") from None


def main() -> None:
    options = common.parser(__doc__, algorithm=False)
    options.add_argument("--topology", choices=GRAPHS, default="ring")
    options.add_argument("--method", default="power-gossip", help="d-psgd, dcd, ecd, choco, deepsqueeze, power-gossip")
    options.add_argument(
        "--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help="a setting of the method: rank=2"
    )
    arguments = options.parse_args()
    lossless = arguments.method in ("power-gossip", "d-psgd")
    if lossless and arguments.codec is not None:
        options.error(f"--codec is not for --method {arguments.method}, which has none")
    task = common.choose_task(arguments)
    comm = MPI.COMM_WORLD
    graph = getattr(mpicomp, arguments.topology)(comm)

    model = task.model()
    broadcast_parameters(model.state_dict(), comm)  # all start from the same parameters, then each has its own
    settings = dict(arguments.set)
    if not lossless:
        settings["codec"] = arguments.codec or "natural"
    optimizer = DecentralizedOptimizer(task.optimizer(model, arguments.lr), graph, arguments.method, **settings)

    def evaluate() -> float:
        with optimizer.average_model(model):
            return task.evaluate(model)

    training = common.Training(task, arguments, comm, lambda: optimizer.bytes_sent, model=model, optimizer=optimizer)
    for step in training.steps():
        optimizer.zero_grad()
        loss = task.loss(model, step, comm.rank)
        loss.backward()
        optimizer.step()
        training.done(step, loss, evaluate)
    neighbors = len(graph.mixing.neighbors[comm.rank])
    uncompressed = neighbors * arguments.steps * sum(p.numel() * p.element_size() for p in model.parameters())
    training.finish(f"{arguments.task}, {arguments.method}, {arguments.topology} of {comm.size}", uncompressed)


if __name__ == "__main__":
    main()
