"""A codec of one's own: signed bytes with one scale for each 256 values. It is known by its name as soon as it is defined.

mpirun -n 4 python examples/custom_codec.py
mpirun -n 4 python examples/custom_codec.py --plot codecs.png bytes:block=32 natural
"""

from __future__ import annotations

from dataclasses import dataclass

import allreduce_numpy
import numpy as np

import mpicomp


@dataclass(frozen=True)
class Bytes(mpicomp.Codec, name="bytes"):
    """Each value as a signed byte times its block's scale, rounded to the nearest. Biased; omega 0.4%."""

    block: int = 256

    kinds = ("f32",)  # class attributes without annotation are no settings

    @property
    def grain(self) -> int:
        return self.block  # the wire may be cut between blocks, so that parts of an array can travel alone

    def omega(self, n: int) -> float:
        return self.block / 254**2  # an error of at most max / 254 in each value of a block

    def size(self, n: int, kind: str) -> int:
        return n + 4 * -(-n // self.block)

    def encode_into(self, x, wire, stream) -> None:
        blocks = -(-x.n // self.block)
        values = np.zeros((blocks, self.block), np.float32)
        values.ravel()[: x.n] = x.data
        scale = np.abs(values).max(axis=1) / 127  # NaN and Inf make the whole block NaN or Inf, which is allowed
        wire[: 4 * blocks].view(np.float32)[:] = scale
        with np.errstate(invalid="ignore"):
            bytes_ = np.rint(values / np.where(scale == 0, 1, scale)[:, None]).astype(np.int8)
        wire[4 * blocks :].view(np.int8)[:] = bytes_.ravel()[: x.n]

    def decode_into(self, wire, out) -> None:
        blocks = -(-out.n // self.block)
        scale = np.repeat(wire[: 4 * blocks].view(np.float32), self.block)[: out.n]
        np.multiply(wire[4 * blocks :].view(np.int8), scale, out=out.data)


if __name__ == "__main__":
    allreduce_numpy.main(["raw", "bytes", "bytes:block=64", "natural", "bf16"])
