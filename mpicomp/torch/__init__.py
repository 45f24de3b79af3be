"""Compressed training with torch: a hook for DistributedDataParallel, optimizers that communicate, functions on tensors."""

from .ddp import HookState, ddp_hook
from .decentralized import DecentralizedOptimizer
from .functional import (
    allreduce,
    allreduce_,
    broadcast_optimizer_state,
    broadcast_parameters,
    neighbor_allreduce,
)
from .optimizer import DistributedOptimizer
from .process_group import init_process_group

__all__ = [
    "DecentralizedOptimizer",
    "DistributedOptimizer",
    "HookState",
    "allreduce",
    "allreduce_",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ddp_hook",
    "init_process_group",
    "neighbor_allreduce",
]
