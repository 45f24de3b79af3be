"""What the compiler makes of every CUDA kernel: registers, spills, PTX instructions for each value; no GPU is needed.

    python benchmarks/ptx.py [--arch sm_80] [--n 65536]             the table of docs/gpu.md
    python benchmarks/ptx.py --compile sm_70,sm_90 [--major 12]     do all kernels compile there, and without spills?

Instructions are counted as they are executed, by the interpreter of tests/emulation, for float32 values; each
thread's count, so a vector load of four values is one. Registers and spills are what ptxas says of its machine code.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from pathlib import Path

EMULATION = Path(__file__).parent.parent / "tests" / "emulation"
sys.path[:0] = [str(EMULATION / "standin"), str(EMULATION)]
os.environ["MPICOMP_TEST_KERNELS"] = "ptx"

import cupy  # noqa: E402
import numpy as np  # noqa: E402
import nvrtc  # noqa: E402
import ptx  # noqa: E402

from mpicomp import codec, device  # noqa: E402
from mpicomp.arrays import Flat  # noqa: E402
from mpicomp.codecs.base import Stream, Terms  # noqa: E402

SPECS = (
    "natural",
    "natural:bits=8",
    "natural-dithering:bits=4",
    "qsgd:bits=4",
    "qsgd:bits=8",
    "sign",
    "grid",
    "topk",
    "randk",
)
EXACT = "--fmad=false"
COUNTED: Counter[str] = Counter()
LAUNCHED: Counter[str] = Counter()


class Counting(ptx.Run):
    """A launch that counts what its threads execute."""

    def _step(self, predicate, negated, words, operands):
        COUNTED[sort(words)] += int(self._chosen(predicate, negated).sum())
        super()._step(predicate, negated, words, operands)

    def _jump(self, at, predicate, negated, words, operands):
        COUNTED["control"] += len(self.active)
        super()._jump(at, predicate, negated, words, operands)


def sort(words: list[str]) -> str:
    if words[0] in ("ld", "st", "atom", "red"):
        return "shared" if "shared" in words else "parameter" if "param" in words else "memory"
    return "float" if words[-1] in ("f32", "f64") and words[0] not in ("mov", "selp") else "integer"


def counting(run):
    def wrapped(self, *args):
        LAUNCHED[self.name] += 1
        return run(self, *args)

    return wrapped


def registers(architecture: str, options: tuple[str, ...] = ("-DMC_KIND=f32",), major: str = "") -> dict[str, tuple]:
    """(registers, spilled bytes) of every kernel."""
    found = {}
    for name in device.FILES:
        log = nvrtc.compile(device.source(name), architecture, EXACT, *options, major=major)[2]
        for kernel, text in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", log, re.S):
            spilled = sum(map(int, re.findall(r"(\d+) bytes spill", text)))
            found[kernel] = int(re.findall(r"Used (\d+) registers", text)[0]), spilled
    return found


def jobs(each, x):
    """The four verbs of a codec, and the bytes of a value that each must move."""
    flat, out, n = Flat(x, "f32"), cupy.empty_like(x), x.size
    wires = [cupy.zeros(each.wire_size(n), "u1") for _ in range(3)]
    for wire in wires[1:]:
        each.encode_into(flat, wire, Stream(1))
    terms, w = Terms(wires[1:], 0, flat, n, "f32"), each.wire_size(n) / n
    yield "encode", 4 + w, lambda: each.encode_into(flat, wires[0], Stream(1))
    yield "decode", 4 + w, lambda: each.decode_into(wires[1], Flat(out, "f32"))
    yield "add", 8 + w, lambda: each.add_into(wires[1], out, "f32")
    yield "reduce of 3", 4 + 3 * w, lambda: each.reduce_into(terms, 1.0, wires[0], Stream(1))


def table(architecture: str, n: int) -> None:
    ptx.Run, ptx.Kernel.run = Counting, counting(ptx.Kernel.run)
    used = registers(architecture)
    x = cupy.asarray(np.random.default_rng(0).standard_normal(n, dtype=np.float32))
    print(
        "| codec | verb | bytes a value | limit | instructions a value | of them memory | integer | float "
        "| registers | spilled |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for spec in SPECS:
        for verb, nbytes, job in jobs(codec(spec), x):
            cupy.cuda.get_current_stream().synchronize()
            COUNTED.clear()
            LAUNCHED.clear()
            job()
            cupy.cuda.get_current_stream().synchronize()
            most = [used[name] for name in LAUNCHED if name in used]
            counts = [sum(COUNTED.values()), COUNTED["memory"], COUNTED["integer"], COUNTED["float"]]
            cells = [spec, verb, f"{nbytes:.3g}", f"{8 / nbytes:.2f}x", *(f"{count / n:.3g}" for count in counts)]
            print(
                "|", " | ".join([*cells, str(max(r for r, _ in most)), str(sum(s for _, s in most))]), "|", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--n", type=int, default=65536)
    parser.add_argument("--compile", metavar="ARCHITECTURES")
    parser.add_argument("--major", default="", help="12: the compiler of CUDA 12 (pip install nvidia-cuda-nvrtc-cu12)")
    arguments = parser.parse_args()
    if not arguments.compile:
        return table(arguments.arch, arguments.n)
    for architecture in arguments.compile.split(","):
        found = registers(architecture, (), arguments.major)  # all kinds of numbers
        most, spilled = max(r for r, _ in found.values()), sum(s for _, s in found.values())
        print(f"{architecture}: {len(found)} kernels, at most {most} registers, {spilled} bytes spilled", flush=True)


if __name__ == "__main__":
    main()
