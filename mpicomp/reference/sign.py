"""Signs with a scale, as in kernels/sign.h: see there for wire and error."""

from __future__ import annotations

import numpy as np

from .dithering import LIMIT, Scaled, kernels, norms


class Signed(Scaled):
    """The mean of |x| in each block, and a sign for each value."""

    def __init__(self, kind: str, block: int):
        super().__init__(kind, 1, block, 8 if kind == "f64" else 4)

    def quantise(self, v, r, more, m):
        bad = ~(np.abs(v).max(axis=1) < LIMIT[self.kind])
        size, factor = norms(np.where(bad[:, None], 0, v), 1)
        scale = (size / m / factor).astype(self.real)
        code = np.where((v[:, :m] < 0) & ~bad[:, None] & (size > 0)[:, None], 128, 0)
        return np.where(bad, self.real(np.nan), scale), code.astype(np.uint8)

    def values(self, code, scale):
        return np.where(code > 127, -scale, scale)


globals().update(kernels("sign", Signed))
