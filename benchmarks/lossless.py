"""Does a lossless coder after a codec pay? Ratio and speed of well-kept libraries on the wires of real gradients.

    python benchmarks/lossless.py [--mb 16] [--runs 5] [--data gradient] [--coder NAME ...]

Needs zstandard, lz4 and blosc2 (what is missing of the last two is left out); `zstd 0` is how mpicomp's `|zstd` codes. Bits
and speeds are those of the codec's wire: `gain` is how much smaller the wire becomes, GB/s are of wire bytes and of processor
time. `entropy` is a bound for coders of single values: of the code of each value (natural: sign and exponent), or of the
wire's bytes. The last columns are the time of wire and coder together on a link, against the wire alone: below 1 the coder
pays. `serial` adds encoding, sending and decoding; `overlapped` takes the slowest of the three, as in a collective that cuts
arrays into segments.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from statistics import median
from typing import Any, Callable

import numpy as np

import mpicomp
from mpicomp.cli.bench.data import describe, values
from mpicomp.codecs.zstd import parameters

CODECS = ["raw", "natural", "natural:bits=8", "natural-dithering:bits=4", "qsgd:bits=4", "topk:ratio=0.01|natural"]
LINKS = {"100 Mbit/s": 100e6 / 8, "1 Gbit/s": 1e9 / 8, "10 Gbit/s": 10e9 / 8}
Coder = tuple[Callable[[bytes], bytes], Callable[[bytes], Any]]


def coders() -> dict[str, Coder]:
    found: dict[str, Coder] = {}
    if find_spec("zstandard"):
        import zstandard

        for level in (-5, 0, 1, 3):
            given = {"compression_params": parameters(0)} if level == 0 else {"level": level}
            found[f"zstd {level}"] = (
                zstandard.ZstdCompressor(**given).compress,
                zstandard.ZstdDecompressor().decompress,
            )
    if find_spec("lz4"):
        import lz4.frame

        found["lz4"] = (lz4.frame.compress, lz4.frame.decompress)
    if find_spec("blosc2"):
        import blosc2

        def blosc(**settings: Any) -> Coder:
            return lambda wire: blosc2.compress2(wire, nthreads=1, **settings), blosc2.decompress2

        plain, bits = [blosc2.Filter.NOFILTER], [blosc2.Filter.BITSHUFFLE]
        found["blosc2 zstd"] = blosc(codec=blosc2.Codec.ZSTD, clevel=1, typesize=1, filters=plain)
        found["blosc2 zstd, bits"] = blosc(codec=blosc2.Codec.ZSTD, clevel=1, typesize=1, filters=bits)
        found["blosc2 lz4, bits"] = blosc(codec=blosc2.Codec.LZ4, clevel=1, typesize=1, filters=bits)
    return found


def entropy(codec: Any, x: np.ndarray, wire: np.ndarray) -> float:
    """Bits a value that a coder of single symbols needs at least."""
    symbols = codec.decode(wire, like=x).view(np.uint32) if codec.name == "natural" else wire
    _, counts = np.unique(symbols, return_counts=True)
    share = counts / counts.sum()
    return float(-(share * np.log2(share)).sum() * symbols.size / x.size)


def seconds(job: Callable[[bytes], Any], given: bytes, runs: int) -> float:
    """Of the processor, all threads together."""
    taken = []
    for _ in range(runs + 1):
        begin = time.process_time()
        job(given)
        taken.append(time.process_time() - begin)
    return median(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=16)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", default="gradient")
    parser.add_argument("--coder", action="append", help="only these")
    arguments = parser.parse_args()
    x = values(arguments.data, int(arguments.mb * 2**20) // 4)
    print(f"{describe(arguments.data)}; {arguments.mb:g} MB of float32\n")
    heads = ["codec", "bits", "entropy", "coder", "bits", "gain", "encode GB/s", "decode GB/s"]
    print("|", " | ".join(heads + [f"{link} serial / overlapped" for link in LINKS]), "|")
    print("|---" * (len(heads) + len(LINKS)) + "|")
    for spec in CODECS:
        codec = mpicomp.codec(spec)
        wire = codec.encode(x, seed=1)
        given = wire.tobytes()
        bits, least = 8 * len(given) / x.size, entropy(codec, x, wire)
        for name, (encode, decode) in coders().items():
            if name not in (arguments.coder or [name]):
                continue
            small = encode(given)
            assert bytes(decode(small)) == given
            times = seconds(encode, given, arguments.runs), seconds(decode, small, arguments.runs)
            cells = [f"`{spec}`".replace("|", "\\|"), f"{bits:.2f}", f"{least:.2f}", name]
            cells += [f"{8 * len(small) / x.size:.2f}", f"{len(given) / len(small):.3f}"]
            cells += [f"{len(given) / each / 1e9:.2f}" for each in times]
            for rate in LINKS.values():
                before, after = len(given) / rate, len(small) / rate
                cells.append(f"{(after + sum(times)) / before:.2f} / {max(after, *times) / before:.2f}")
            print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
