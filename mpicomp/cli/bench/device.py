"""mpicomp bench codecs --device cuda: each kernel on the GPU, against a copy from device to device of the same values.

Times are taken by events of the device. `limit` is what memory allows: the bytes that a copy moves over those that the
kernel must move at least.
"""

from __future__ import annotations

import argparse
from itertools import product
from statistics import median
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ... import __version__
from ...arrays import Flat, cupy_module
from ...codecs.base import Codec, Stream, Terms
from ...errors import CodecError
from ..timing import size
from .data import describe, values
from .report import Bar, Column, Report, digits

COLUMNS = {
    "codec": Column("codec", 26),
    "data": Column("data", 9),
    "size": Column("size", 8, size),
    "kernel": Column("kernel", 7),
    "bits": Column("bits", 6, digits(3)),
    "gbs": Column("GB/s of values", 14, digits(3)),
    "moved_gbs": Column("GB/s moved", 10, digits(3)),
    "copy": Column("x copy", 6, digits(3)),
    "limit": Column("limit", 6, digits(3)),
}
PEERS = 2  # wires of other ranks that `reduce` sums, beside this rank's own values


class Job(NamedTuple):
    """Something to time, and the bytes that it must read and write at least."""

    run: Callable[[], Any]
    moved: int


def run(arguments: argparse.Namespace, codecs: Sequence[Codec], kinds: Sequence[str], sizes: Sequence[int]) -> None:
    cupy = cupy_module()
    facts = {
        "mpicomp": f"{__version__} bench codecs --device cuda",
        "device": _name(cupy),
        "values": f"{', '.join(map(size, sizes))} of float32; reduce: {PEERS} wires and own values",
        **{f"data {kind}": describe(kind) for kind in kinds},
    }
    report = Report(COLUMNS, facts, arguments)
    bar = Bar(len(kinds) * len(sizes) * len(codecs), force=arguments.progress)
    for kind, nbytes in product(kinds, sizes):
        x = cupy.asarray(values(kind, nbytes // 4))
        for each in codecs:
            bar.step(f"{each} on {kind}")
            found = jobs(each, x)
            times = in_turns(cupy, found, arguments.iters, arguments.warmup_iters)
            bar.step()
            for name, job in list(found.items())[1:]:
                about = {"codec": str(each), "data": kind, "size": nbytes}
                report.row({**about, **_row(each, x, found["copy"], job, name, times)})
    report.close()


def jobs(each: Codec, x: Any) -> dict[str, Job]:
    """A copy, and the codec's kernels."""
    cupy, n = cupy_module(), x.size
    flat, out, stream = Flat(x, "f32"), cupy.empty_like(x), Stream(1)
    wires = [cupy.zeros(each.wire_size(n), "u1") for _ in range(PEERS + 1)]
    for wire in wires[1:]:
        each.encode_into(flat, wire, stream)
    terms, nbytes = Terms(wires[1:], 0, flat, n, "f32"), wires[0].nbytes
    return {
        "copy": Job(lambda: out.data.copy_from_device_async(x.data, x.nbytes), 2 * x.nbytes),
        "encode": Job(lambda: each.encode_into(flat, wires[0], stream), x.nbytes + nbytes),
        "decode": Job(lambda: each.decode_into(wires[1], Flat(out, "f32")), x.nbytes + nbytes),
        "add": Job(lambda: each.add_into(wires[1], out, "f32"), 2 * x.nbytes + nbytes),
        "reduce": Job(lambda: each.reduce_into(terms, 1.0, wires[0], stream), x.nbytes + (PEERS + 1) * nbytes),
    }


def in_turns(cupy: Any, found: Mapping[str, Job], turns: int, more: int = 1) -> dict[str, float]:
    """Median seconds of each job on the device; `more` turns before are not counted."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(turns + more):
        for name, job in found.items():
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            job.run()
            end.record()
            end.synchronize()
            times[name].append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return {name: median(each[more:]) for name, each in times.items()}


def _row(each: Codec, x: Any, copy: Job, job: Job, name: str, times: Mapping[str, float]) -> dict[str, Any]:
    return {
        "kernel": name,
        "bits": 8 * each.wire_size(x.size) / max(x.size, 1),
        "gbs": x.nbytes / times[name] / 1e9,
        "moved_gbs": job.moved / times[name] / 1e9,
        "copy": times["copy"] / times[name],
        "limit": copy.moved / job.moved,
    }


def _name(cupy: Any) -> str:
    try:
        return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"].decode()
    except RuntimeError as error:  # which CuPy's own are
        raise CodecError(f"--device cuda: there is no GPU that CuPy can use ({error})") from error
