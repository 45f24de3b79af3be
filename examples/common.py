"""What the training examples share and what is not their point: options, a progress bar, a table, a plot, checkpoints."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Optional

import torch
from mpi4py import MPI
from tasks import TASKS

from mpicomp.cli.bench import plots
from mpicomp.cli.numbers import positive
from mpicomp.cli.terminal import watched

ROWS = 5  # evaluations in a training


def parser(description: str, algorithm: bool = True) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=description.partition("\n")[0])
    add = options.add_argument
    add("--task", choices=list(TASKS), default="digits")
    default = "natural" if algorithm else None
    add("--codec", default=default, help="e.g. raw, natural, natural:bits=8, qsgd:bits=4 (default: natural)")
    if algorithm:
        add(
            "--algorithm", default="direct", help='"auto" leaves models as small as these to MPI (default: %(default)s)'
        )
    add("--steps", type=positive, help="training steps, those before a checkpoint included")
    add("--lr", type=float, help="learning rate")
    add("--seed", type=int, default=0)
    add("--checkpoint", type=Path, metavar="FILE", help="go on from this file if it exists; save to it")
    add("--plot", type=Path, metavar="FILE", help="draw the curves (needs matplotlib)")
    return options


def add_feedback(options: argparse.ArgumentParser) -> None:
    options.add_argument(
        "--feedback",
        nargs="?",
        const=True,
        default=False,
        choices=[True, "ef21"],
        help="send later what compression left out: for sign, topk and other biased codecs",
    )


def choose_task(arguments: argparse.Namespace) -> Any:
    """The task, with the options that were not given filled in."""
    plots.check(arguments)
    torch.set_num_threads(1)
    task = TASKS[arguments.task](arguments.seed)
    arguments.steps = task.steps if arguments.steps is None else arguments.steps
    arguments.lr = task.lr if arguments.lr is None else arguments.lr
    return task


class Training:
    """Counts the steps, evaluates now and then, saves checkpoints, and shows on rank 0 how it goes.

    `states` are the objects whose state_dict makes a checkpoint: every rank's own, in one file that rank 0 reads and writes.
    """

    def __init__(
        self, task: Any, arguments: argparse.Namespace, comm: MPI.Comm, sent: Callable[[], int], **states: Any
    ):
        self.task, self.arguments, self.comm, self.sent, self.states = task, arguments, comm, sent, states
        self.rows: list[tuple[int, float, float, int, float]] = []
        self.first = self._load()
        _, _, _, self.sent_before, before = self.rows[-1] if self.rows else (0, 0.0, 0.0, 0, 0.0)
        self.begin = time.perf_counter() - before
        self.bar = comm.rank == 0 and watched()
        self.headed = False

    def steps(self) -> Any:
        """The numbers of the steps that are to be made."""
        yield from range(self.first, self.arguments.steps)

    def done(self, step: int, loss: torch.Tensor, evaluate: Callable[[], float]) -> None:
        """To be called by every rank at the end of each step. `evaluate` is called now and then."""
        total = self.arguments.steps
        if self.bar:
            filled = 30 * (step + 1) // total
            print(f"\r[{'=' * filled:30}] step {step + 1} of {total} ", end="", file=sys.stderr, flush=True)
        if (step + 1) % max(total // ROWS, 1) == 0 or step + 1 == total:
            mean = self.comm.allreduce(loss.item()) / self.comm.size
            self._add(step + 1, mean, evaluate())
            self._save(step + 1)

    def finish(self, title: str, uncompressed: int) -> None:
        """The plot, and how much less was sent than without compression."""
        if self.comm.rank or not self.rows:
            return
        bytes_sent = self.rows[-1][3]
        less = f", {uncompressed / bytes_sent:.1f} times less than uncompressed" if bytes_sent else ""
        print(f"{title}: each rank sent {size(bytes_sent)}{less}")
        if self.arguments.plot:
            self._plot(title)

    def _add(self, step: int, loss: float, quality: float) -> None:
        row = (step, loss, quality, self.sent_before + self.sent(), time.perf_counter() - self.begin)
        if self.comm.rank == 0:
            if self.bar:
                print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)
            if not self.rows:
                print(
                    f"{'step':>6} {'training loss':>14} {self.task.quality:>22} {'sent by a rank':>15} {'seconds':>8}"
                )
            print(f"{step:6} {loss:14.4f} {quality:22.4f} {size(row[3]):>15} {row[4]:8.1f}", flush=True)
        self.rows.append(row)

    def _save(self, step: int) -> None:
        path: Optional[Path] = self.arguments.checkpoint
        if path is None:
            return
        mine = {name: part.state_dict() for name, part in self.states.items()}
        ranks = self.comm.gather(mine)

        def write() -> None:  # a job that ends here leaves the old file or the new one, never half of one
            fresh = path.with_name(path.name + ".new")
            torch.save({"step": step, "rows": self.rows, "ranks": ranks}, fresh)
            os.replace(fresh, path)

        self._first(write, f"{path} cannot be written")

    def _load(self) -> int:
        path: Optional[Path] = self.arguments.checkpoint
        if path is None:
            return 0

        def read() -> Any:
            if not path.resolve().parent.is_dir():
                raise OSError(f"there is no folder {path.parent}")
            return torch.load(path, weights_only=True) if path.exists() else None

        saved = self._first(read, f"{path} is no checkpoint, or cannot be read")
        step, rows, n = self.comm.bcast(saved and (saved["step"], saved["rows"], len(saved["ranks"]))) or (0, [], 0)
        if n and n != self.comm.size:
            raise SystemExit(f"{path} is of {n} ranks, not of {self.comm.size}")
        if n:
            mine = self.comm.scatter(saved and saved["ranks"])
            for name, part in self.states.items():
                part.load_state_dict(mine[name])
            self.rows = [tuple(row) for row in rows]
            if self.comm.rank == 0:
                print(f"going on from step {step} of {path}")
        return step

    def _first(self, job: Callable[[], Any], words: str) -> Any:
        """What job() gives on rank 0. If it fails there all ranks end: they would wait for it."""
        result, fault = None, ""
        if self.comm.rank == 0:
            try:
                result = job()
            except Exception as error:
                fault = f"{words}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        fault = self.comm.bcast(fault)
        if fault:
            raise SystemExit(fault)
        return result

    def _plot(self, title: str) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        steps, losses, qualities, sent, _ = zip(*self.rows)
        left.plot(steps, losses, "o-")
        left.set(xlabel="step", ylabel="training loss", title=title)
        right.plot([nbytes / 1e6 for nbytes in sent], qualities, "o-")
        right.set(xlabel="MB sent by each rank", ylabel=self.task.quality)
        figure.savefig(self.arguments.plot)
        print(f"plot: {self.arguments.plot}")


def size(nbytes: float) -> str:
    """1234567 as 1.23 MB."""
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} GB"


def allreduce_bytes(model: torch.nn.Module, ranks: int, steps: int) -> int:
    """What each rank would send in an uncompressed training."""
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    return round(2 * (ranks - 1) / ranks * parameters * steps)
