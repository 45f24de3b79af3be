"""Training without DistributedDataParallel: an optimizer that averages gradients over all ranks, compressed.

mpirun -n 4 python examples/train_optimizer.py
mpirun -n 4 python examples/train_optimizer.py --task text --clip 1.0 --exact "*norm*" --exact "*.bias"
"""

from __future__ import annotations

import common
import torch
from mpi4py import MPI

from mpicomp.torch import DistributedOptimizer, broadcast_parameters


def main() -> None:
    options = common.parser(__doc__)
    common.add_feedback(options)
    options.add_argument("--clip", type=float, help="largest norm of the gradient")
    options.add_argument(
        "--exact", action="append", default=[], metavar="PATTERN", help="names of parameters that are not compressed"
    )
    arguments = options.parse_args()
    task = common.choose_task(arguments)
    comm = MPI.COMM_WORLD

    model = task.model()
    broadcast_parameters(model.state_dict(), comm)
    codecs = {**dict.fromkeys(arguments.exact, "raw"), "*": arguments.codec} if arguments.exact else arguments.codec
    optimizer = DistributedOptimizer(
        task.optimizer(model, arguments.lr),
        comm,
        codecs,
        model.named_parameters(),
        algorithm=arguments.algorithm,
        feedback=arguments.feedback,
    )

    training = common.Training(task, arguments, comm, lambda: optimizer.bytes_sent, model=model, optimizer=optimizer)
    for step in training.steps():
        optimizer.zero_grad()
        loss = task.loss(model, step, comm.rank)
        loss.backward()  # gradients begin to travel
        if arguments.clip:
            optimizer.synchronize()  # now they are the mean over all ranks
            torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip)
        optimizer.step()
        training.done(step, loss, lambda: task.evaluate(model))
    uncompressed = common.allreduce_bytes(model, comm.size, arguments.steps)
    training.finish(f"{arguments.task}, {arguments.codec}, {comm.size} ranks", uncompressed)


if __name__ == "__main__":
    main()
