"""Trainings one after the other, on all ranks: mpirun -n 4 python -m benchmarks.training.accuracy FOLDER NAME ...

Each writes a file of JSON when it is through.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from mpi4py import MPI

import mpicomp
from mpicomp.torch import DecentralizedOptimizer, DistributedOptimizer, broadcast_parameters

from .runs import STEPS, Training, Way, trainings
from .tasks import TASKS

ROWS = 10  # evaluations


def train(training: Training, world: MPI.Intracomm) -> dict[str, Any]:
    """The rows (step, mean training loss since the last row, quality, bytes sent by a rank)."""
    way, steps, task = training.way, STEPS[training.task], TASKS[training.task](training.seed)
    task.batch = task.batch * 4 // way.ranks  # the same number of samples in a step of all
    comm = world.Dup()
    model = task.model()
    broadcast_parameters(model.state_dict(), comm)
    inner = task.optimizer(model, task.lr)
    optimizer = wrap(way, inner, comm)
    rows, total, begin = [], 0.0, time.perf_counter()
    for step in range(steps):
        for group in inner.param_groups:
            group["lr"] = task.lr * (1 - step / steps)  # to 0, or the noise of the last steps decides
        optimizer.zero_grad()
        loss = task.loss(model, step, comm.rank)
        loss.backward()
        optimizer.step()
        total += loss.item() / (steps // ROWS)
        if (step + 1) % (steps // ROWS) == 0:
            mean, total = comm.allreduce(total) / comm.size, 0.0
            rows.append((step + 1, mean, evaluate(task, model, optimizer, way), optimizer.bytes_sent))
    seconds = time.perf_counter() - begin
    comm.Free()
    return {"task": training.task, "way": way.name, "seed": training.seed, "seconds": seconds, "rows": rows}


def wrap(way: Way, inner: torch.optim.Optimizer, comm: MPI.Intracomm) -> Any:
    if way.central:
        return DistributedOptimizer(inner, comm, **way.settings)
    return DecentralizedOptimizer(inner, mpicomp.ring(comm), way.method, **way.settings)


def evaluate(task: Any, model: torch.nn.Module, optimizer: Any, way: Way) -> float:
    if way.central:
        return task.evaluate(model)
    with optimizer.average_model(model):
        return task.evaluate(model)


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    os.sched_yield = lambda: time.sleep(2e-4)  # ranks outnumber cores: who waits for others lets them work
    world = MPI.COMM_WORLD
    for training in trainings():
        if training.name in names:
            result = train(training, world)
            if world.rank == 0:
                print(f"{training.name}: {result['rows'][-1]}, {result['seconds']:.0f} s", flush=True)
                (folder / f"{training.name}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
