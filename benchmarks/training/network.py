"""Seconds to an accuracy on a network, every way in turn: netlab ... -- python -m benchmarks.training.network FOLDER network-1Gbit-0

A DistributedDataParallel model each time; only its communication hook differs. The clock stands still in evaluations.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import mpicomp
from mpicomp.torch import HookState, ddp_hook, init_process_group

from .tasks import WideDigits

TARGET = 0.9
EVERY, MOST = 2, 80  # steps between two evaluations, and at most
Register = Callable[[DistributedDataParallel], Optional[HookState]]


def ours(codec: str, **settings: Any) -> Register:
    def register(model: DistributedDataParallel) -> HookState:
        state = HookState(mpicomp.Comm(MPI.COMM_WORLD), codec, **settings)
        model.register_comm_hook(state, ddp_hook)
        return state

    return register


def fp16(model: DistributedDataParallel) -> None:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)


def power_sgd(model: DistributedDataParallel) -> None:
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


WAYS: dict[str, Register] = {
    "torch, fp32": lambda model: None,
    "torch, fp16 hook": fp16,
    "torch, PowerSGD hook, rank 2": power_sgd,
    "mpicomp, natural": ours("natural"),
    "mpicomp, natural:bits=8": ours("natural:bits=8"),
    "mpicomp, natural-dithering:bits=4": ours("natural-dithering:bits=4"),
    "mpicomp, lowrank:rank=2, feedback": ours("lowrank:rank=2", feedback=True),
}
SINGLE_BUCKET = {"bucket_cap_mb": 1000}  # with more, torch's PowerSGD hook deadlocks over gloo


def train(register: Register, task: WideDigits, comm: MPI.Comm, **ddp: Any) -> dict[str, Any]:
    """Rows (step, seconds, accuracy) up to the target, and the seconds of each step."""
    model = DistributedDataParallel(task.model(), **ddp)
    optimizer = task.optimizer(model, task.lr)
    state = register(model)
    rows, seconds = [], []
    for step in range(MOST):
        if step % EVERY == 0:
            accuracy = task.evaluate(model.module)
            rows.append((step, sum(seconds), accuracy))
            if accuracy >= TARGET:
                break
            comm.Barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        task.loss(model, step, comm.rank).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    sent = None if state is None else state.bytes_sent
    return {"rows": rows, "steps": seconds, "sent": sent}


def main(folder: Path, name: str) -> None:
    torch.set_num_threads(1)
    comm = MPI.COMM_WORLD
    init_process_group(comm)
    seed = int(name.rpartition("-")[2])
    results = {}
    for way, register in WAYS.items():
        ddp = SINGLE_BUCKET if register is power_sgd else {}
        results[way] = train(register, WideDigits(seed), comm, **ddp)
        if comm.rank == 0:
            (steps, total, accuracy), times = results[way]["rows"][-1], results[way]["steps"]
            print(
                f"{way}: {accuracy:.1%} after {steps} steps, {total:.1f} s; the first took {times[0]:.2f} s, "
                f"the median {statistics.median(times):.3f} s",
                flush=True,
            )
    if comm.rank == 0:
        (folder / f"{name}.json").write_text(json.dumps({"seed": seed, "target": TARGET, "ways": results}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
