"""Training with torch's DistributedDataParallel whose gradients travel compressed: two lines more than without.

mpirun -n 4 python examples/train_ddp.py
mpirun -n 4 python examples/train_ddp.py --task text --codec natural:bits=8 --plot curves.png
mpirun -n 4 python examples/train_ddp.py --checkpoint run.pt       # started again, it goes on where it was
"""

from __future__ import annotations

import common
import torch.distributed as dist
from mpi4py import MPI
from torch.nn.parallel import DistributedDataParallel

import mpicomp.torch


def main() -> None:
    options = common.parser(__doc__)
    common.add_feedback(options)
    arguments = options.parse_args()
    task = common.choose_task(arguments)
    comm = MPI.COMM_WORLD

    mpicomp.torch.init_process_group(comm)  # torch's own, over gloo; MPI says who is who
    model = DistributedDataParallel(task.model())
    state = mpicomp.torch.HookState(comm, arguments.codec, arguments.feedback, arguments.algorithm)
    model.register_comm_hook(state, mpicomp.torch.ddp_hook)
    optimizer = task.optimizer(model, arguments.lr)

    training = common.Training(
        task, arguments, comm, lambda: state.bytes_sent, model=model, optimizer=optimizer, hook=state
    )
    for step in training.steps():
        optimizer.zero_grad()
        loss = task.loss(model, step, comm.rank)
        loss.backward()
        optimizer.step()
        training.done(step, loss, lambda: task.evaluate(model.module))
    uncompressed = common.allreduce_bytes(model, comm.size, arguments.steps)
    training.finish(f"{arguments.task}, {arguments.codec}, {comm.size} ranks", uncompressed)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
