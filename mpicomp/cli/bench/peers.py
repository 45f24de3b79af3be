"""--compare: what other libraries do with the same arrays, where they are installed."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from typing import Any, Callable, NamedTuple

import numpy as np

from .sweep import Trial


def trials(plain: Any, dtype: str) -> tuple[list[Trial], list[str]]:
    """(what can be compared, what cannot and why). Collective."""
    if dtype != "float32":
        return [], ["--compare is for float32"]
    found, notes = [Trial("mpi4py float16", "-", call=half(plain), part=0.5)], []
    if not all(plain.allgather(find_spec("torch") is not None)):
        return found, ["torch is not installed: gloo and torch's hooks are not compared"]
    fault = gloo(plain)
    if any(plain.allgather(fault)):
        return found, [f"torch's gloo is not compared: {fault or 'another rank could not start it'}"]
    notes.append("torch: reduces in place, so its times hold a copy of the array; hooks give means, scaled to sums")
    notes.append("torch PowerSGD: rank 2 with warm start and feedback; its error is that of a single step's result")
    found.append(Trial("torch gloo", "-", call=all_reduce, part=1.0))
    found.append(Trial("torch fp16 hook", "-", call=half_hook(plain), part=0.5))
    found.append(Trial("torch PowerSGD hook", "-", call=powersgd_hook(plain)))
    return found, notes


def half(plain: Any) -> Callable[..., None]:
    """Cast to float16, a sum by an operation of ours since MPI has none for it, cast back: what users write."""
    from mpi4py import MPI

    def add(a: Any, b: Any, datatype: Any) -> None:
        into = np.frombuffer(b, np.float16)
        np.add(np.frombuffer(a, np.float16), into, out=into)

    op = MPI.Op.Create(add, commute=True)

    def call(x: np.ndarray, out: np.ndarray) -> None:
        small = x.astype(np.float16)
        plain.Allreduce(MPI.IN_PLACE, [small.view(np.uint16), MPI.UINT16_T], op)
        out[...] = small

    return call


def gloo(plain: Any) -> str:
    """Start torch.distributed on the ranks of `plain`; why not, if it fails."""
    import torch.distributed as dist
    from mpi4py import MPI

    try:
        alone = len(set(plain.allgather(MPI.Get_processor_name()))) == 1
        host = "127.0.0.1" if alone else os.environ.get("MASTER_ADDR") or socket.gethostbyname(socket.gethostname())
        host, limit = plain.bcast(host), timedelta(seconds=30)
        store = (
            dist.TCPStore(host, 0, is_master=True, timeout=limit, wait_for_workers=False) if plain.rank == 0 else None
        )
        port = plain.bcast(store.port if store is not None else 0)
        store = store or dist.TCPStore(host, port, is_master=False, timeout=limit)
        dist.init_process_group("gloo", store=store, rank=plain.rank, world_size=plain.size, timeout=limit)
        return ""
    except (RuntimeError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def all_reduce(x: np.ndarray, out: np.ndarray) -> None:
    import torch
    import torch.distributed as dist

    out[...] = x
    dist.all_reduce(torch.from_numpy(out))


class Bucket:
    """What a communication hook asks of a bucket of gradients."""

    def __init__(self, values: Any, shape: tuple[int, ...]):
        self.values, self.shape = values, shape

    def buffer(self) -> Any:
        return self.values

    def gradients(self) -> list[Any]:
        return [self.values.view(self.shape)]

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True


def half_hook(plain: Any) -> Callable[..., None]:
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    def call(x: np.ndarray, out: np.ndarray) -> None:
        out[...] = x
        bucket: Any = Bucket(torch.from_numpy(out), x.shape)
        into = torch.from_numpy(out)
        torch.mul(fp16_compress_hook(None, bucket).wait(), plain.size, out=into)  # type: ignore[arg-type]

    return call


def powersgd_hook(plain: Any) -> Callable[..., None]:
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    states: dict[int, Any] = {}

    def call(x: np.ndarray, out: np.ndarray) -> None:
        fresh = x.size not in states
        if fresh:
            states.clear()
            states[x.size] = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        rows = next(m for m in range(int(x.size**0.5), 0, -1) if x.size % m == 0)
        for _ in range(3 if fresh else 1):  # the first two steps are not compressed
            out[...] = x
            bucket: Any = Bucket(torch.from_numpy(out), (rows, x.size // rows))
            result = powerSGD_hook.powerSGD_hook(states[x.size], bucket).wait()
        torch.mul(result, plain.size, out=torch.from_numpy(out))

    return call


class PeerCodec(NamedTuple):
    """Another library's codec: encode(x) gives bytes, decode(bytes, x) an array."""

    name: str
    encode: Callable[[np.ndarray], Any]
    decode: Callable[[Any, np.ndarray], np.ndarray]

    def __str__(self) -> str:
        return self.name

    def jobs(self, x: np.ndarray, out: np.ndarray) -> tuple[Callable[[], Any], Callable[[], Any], Callable[[], int]]:
        wire = [self.encode(x)]

        def encode() -> None:
            wire[0] = self.encode(x)

        def decode() -> None:
            out[...] = self.decode(wire[0], x)

        return encode, decode, lambda: len(wire[0])


def codecs() -> tuple[list[PeerCodec], list[str]]:
    """(codecs of other libraries, what is not installed): one thread each, as ours."""
    found, notes = [], []
    if find_spec("zfpy"):
        import zfpy

        for rate in (4, 8):
            found.append(
                PeerCodec(
                    f"zfp rate={rate}",
                    partial(zfpy.compress_numpy, rate=rate, write_header=True),
                    lambda wire, x: zfpy.decompress_numpy(wire),
                )
            )
    else:
        notes.append("zfpy is not installed: zfp is not compared")
    if find_spec("blosc2"):
        import blosc2

        blosc2.set_nthreads(1)
        for name in ("LZ4", "ZSTD"):
            settings = {"codec": getattr(blosc2.Codec, name), "clevel": 1, "typesize": 4, "nthreads": 1}
            found.append(
                PeerCodec(
                    f"blosc2 {name.lower()} (lossless)",
                    lambda x, settings=settings: blosc2.compress2(x, **settings),  # type: ignore[misc]
                    lambda wire, x: np.frombuffer(blosc2.decompress2(wire), x.dtype),
                )
            )
    else:
        notes.append("blosc2 is not installed: it is not compared")
    return found, notes
