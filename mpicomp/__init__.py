"""mpicomp: MPI collectives that travel compressed.

Import does nothing: what needs MPI is loaded on first use, and mpi4py initialises MPI only then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .codecs import (
    BF16,
    FP16,
    QSGD,
    Chain,
    Codec,
    Dithering,
    Grid,
    LowRank,
    Natural,
    NaturalDithering,
    RandK,
    Raw,
    Sign,
    TernGrad,
    TopK,
    Zstd,
    codec,
)
from .errors import CodecError, DisagreementError, Error, RemoteError, TimeoutError, WireError

if TYPE_CHECKING:
    from . import gossip, simulation, topology
    from .comm import Comm
    from .functional import allreduce
    from .request import Request
    from .topocomm import (
        Cartcomm,
        Distgraphcomm,
        complete,
        exponential,
        graph,
        grid,
        hypercube,
        neighbor_allreduce,
        ring,
        star,
        torus,
    )

__version__ = "0.1.0"
__all__ = [
    "BF16",
    "FP16",
    "Cartcomm",
    "Chain",
    "QSGD",
    "Codec",
    "CodecError",
    "Comm",
    "DisagreementError",
    "Distgraphcomm",
    "Dithering",
    "Error",
    "Grid",
    "LowRank",
    "Natural",
    "RandK",
    "NaturalDithering",
    "Raw",
    "RemoteError",
    "Request",
    "Sign",
    "TernGrad",
    "TimeoutError",
    "TopK",
    "WireError",
    "Zstd",
    "allreduce",
    "codec",
    "complete",
    "exponential",
    "gossip",
    "graph",
    "grid",
    "hypercube",
    "neighbor_allreduce",
    "ring",
    "simulation",
    "star",
    "topology",
    "torus",
]

_MODULES = ("gossip", "simulation", "topology", "torch")
_GRAPHS = (
    "Cartcomm",
    "Distgraphcomm",
    "complete",
    "exponential",
    "graph",
    "grid",
    "hypercube",
    "neighbor_allreduce",
    "ring",
    "star",
    "torus",
)
_LAZY = {
    "Comm": "comm",
    "Request": "request",
    "allreduce": "functional",
    **dict.fromkeys(_GRAPHS, "topocomm"),
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    return value
