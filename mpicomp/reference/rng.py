"""Random numbers by counting, as in kernels/rng.h, and the keys of their streams."""

from __future__ import annotations

import numpy as np

from ..checks import whole

GROUP = 64
MASK64 = (1 << 64) - 1
HALF = 1 << 31


def stream_key(seed: int, call: int = 0, rank: int = 0, stage: int = 0) -> int:
    """The 64-bit key of the stream that `rank` uses in `stage` of the `call`-th collective under `seed`.

    Each word is absorbed by a full 64-bit mix, so keys collide no more often than random ones do.
    """
    key = 0x243F6A8885A308D3
    for word in (whole("seed", seed), call, rank, stage):
        key = _mix((key * 0x9E3779B97F4A7C15 + 0xB7E151628AED2A6B ^ word) & MASK64)
    return key


def _mix(h: int) -> int:
    """A bijection of 64 bits in which every bit depends on every other."""
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93 & MASK64
    h = (h ^ h >> 29) * 0xFF51AFD7ED558CCD & MASK64
    h = (h ^ h >> 32) * 0xC4CEB9FE1A85EC53 & MASK64
    return h ^ h >> 31


def groups(key: int, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The two words (a, b) of `count` groups from the one that element `first` begins."""
    key = int(key)
    key2 = (key * 0xD1342543DE82EF95 + 0xA0761D6478BD642F) & MASK64
    key2 = (key2 << 32 | key2 >> 32) & MASK64
    h = np.arange(count, dtype=np.uint64) + np.uint64(int(first) // GROUP)
    h = h * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(key)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(29)
    h += np.uint64(key2)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(32)
    return h.astype(np.uint32), (h >> np.uint64(32)).astype(np.uint32)


def lanes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The 64 draws of each group, in order."""
    x = a[:, None] + np.arange(GROUP, dtype=np.uint32) * np.uint32(0x9E3779B9)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x += b[:, None]
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x.ravel()


def draws(n: int, key: int, first: int = 0, offset: int = 0, nearest: int = 0) -> np.ndarray:
    """32 random bits for each of n elements from `first` (a multiple of 64); one half each if `nearest`."""
    if nearest:
        return np.full(n, HALF, np.uint32)
    a, b = groups(key, first, -(-n // GROUP))
    return lanes(a, b)[:n] + np.array(offset, np.uint32)


def draws64(n: int, key: int, first: int = 0, offset: int = 0, nearest: int = 0) -> np.ndarray:
    """64 random bits each; `offset` is added to the upper half."""
    if nearest:
        return np.full(n, HALF << 32, np.uint64)
    a, b = groups(key, first, -(-n // GROUP))
    low = lanes(b ^ np.uint32(0x5851F42D), a)[:n]
    high = draws(n, key, first, offset)
    return high.astype(np.uint64) << np.uint64(32) | low
