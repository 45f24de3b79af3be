"""Every codec on arrays of CuPy (or of its stand-in) and of NumPy: the same bytes, the same values, bit for bit.

python same_bits.py SIZES SPECS...     prints what differs, and then fails
"""

from __future__ import annotations

import sys

import cupy
import numpy as np
from common import DTYPES, bits

import mpicomp
from mpicomp import launch
from mpicomp.arrays import KINDS, Flat
from mpicomp.codecs.base import Stream, Terms

LOWEST = {"f32": -152, "f64": -1080, "f16": -28, "bf16": -140}  # exponents, where subnormals are met too


def values(n, kind, seed, plain=False):
    """Numbers of every size; unless `plain` also NaN, infinities, zeros and the largest."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(LOWEST[kind], 14, n) if seed % 2 else rng.integers(-3, 3, n)
    with np.errstate(all="ignore"):
        x = (rng.standard_normal(n) * np.exp2(exponents.astype(np.float64))).astype(DTYPES[kind])
        if not plain:
            for place, value in ((5, np.nan), (70, np.inf), (71, -np.inf), (90, -0.0), (91, 0.0), (300, 3.4e38)):
                x[place:n:1000] = value
    if KINDS[kind].storage.itemsize == 4 and n > 2:
        x[2] = 1e-45
    return x.view(KINDS[kind].storage)


def same(host, device):
    """Whether two arrays have the same bits; one NaN is as good as another."""
    there, here = device.get().reshape(-1), np.asarray(host).reshape(-1)
    if here.dtype.kind == "f":
        nan = np.isnan(here)
        return (np.isnan(there) == nan).all() and (bits(here)[~nan] == bits(there)[~nan]).all()
    return (here == there).all()


class Both:
    """The same steps on both sides; says which of them differ."""

    def __init__(self, codec, kind, n, plain):
        self.codec, self.kind, self.n, self.wrong = codec, kind, n, []
        self.size = codec.size(n, kind)
        self.plain = plain

    def arrays(self, host):
        return host, cupy.asarray(host)

    def check(self, step, host, device):
        if not same(host, device):
            self.wrong.append(step)

    def run(self):
        stream = Stream(0x123456789ABCDEF, 65536, 0x40000000, 77)
        wires = []
        for seed in (0, 1):
            x = self.arrays(values(self.n, self.kind, seed, self.plain))
            pair = self.arrays(np.full(self.size, 0xA5, np.uint8))  # memory may have held anything
            for data, wire in zip(x, pair):
                self.codec.encode_into(Flat(data, self.kind), wire, stream)
            self.check(f"encode {seed}", *pair)
            wires.append(pair)
        self.decode(*wires)
        self.reduce(x, wires, stream)

    def decode(self, *wires):
        for number, pair in enumerate(wires):
            outs = self.arrays(np.zeros(self.n, KINDS[self.kind].storage))
            sums = self.arrays(values(self.n, "f64" if self.kind == "f64" else "f32", 3, plain=True))
            for wire, out, acc in zip(pair, outs, sums):
                self.codec.decode_into(wire, Flat(out, self.kind))
                self.codec.add_into(wire, acc, self.kind, 0.3)
            self.check(f"decode {number}", *outs)
            self.check(f"add {number}", *sums)

    def reduce(self, x, wires, stream):
        for position, own in ((1, x), (0, (None, None))):
            outs = self.arrays(np.full(self.size, 0xA5, np.uint8))
            for side in (0, 1):
                flat = None if own[side] is None else Flat(own[side], self.kind)
                terms = Terms([pair[side] for pair in wires], position, flat, self.n, self.kind)
                self.codec.reduce_into(terms, 0.25, outs[side], stream)
            self.check(f"reduce at {position}", *outs)


def low_rank(codec, kinds):
    """The steps that differ for a codec of matrices."""
    for kind in (kind for kind in kinds if kind != "bf16"):  # which CuPy does not have
        x = values(60 * 77, kind, 0, plain=True).reshape(60, 77)
        there = cupy.asarray(x)
        wire = codec.encode(x, seed=3)
        wire_there = codec.encode(there, seed=3)
        if not same(wire, wire_there):
            yield f"{kind}: encode"
        if not same(codec.decode(wire, like=x), codec.decode(wire_there, like=there)):
            yield f"{kind}: decode"
    small = np.zeros((2, 64), np.float32)  # products of these are subnormal
    small[0, [0, 5, 6]], small[1, [0, 1]] = (1, 1e-20, 3e-21), (2e-19, 1)
    there = cupy.asarray(small)
    for factors in (small, there):
        launch.kernel("lowrank_orthonormalize_f32", factors)(factors, 64, 2)
    if not same(small, there):
        yield "f32: orthonormalize"


def main(sizes, kinds, specs):
    wrong = []
    for spec in specs:
        codec = mpicomp.codec(spec)
        if codec.name == "lowrank":
            wrong += [f"{spec} {step}" for step in low_rank(codec, kinds)]
            continue
        for kind in (kind for kind in codec.kinds if kind in kinds):
            for n in map(int, sizes.split(",")):
                both = Both(codec, kind, n, plain=n < 64)
                both.run()
                wrong += [f"{spec} {kind} n={n}: {step}" for step in both.wrong]
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        sys.exit(main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:]))
