"""Builds the kernels and fuzz.c with AddressSanitizer and UndefinedBehaviorSanitizer, and runs every codec.

python tests/fuzz [INPUTS [SEED [CODEC ...]]]; `make fuzz` runs 10 million inputs of each. Needs gcc or clang, nothing else.
Inputs come in slices with seeds SEED, SEED + 1, ..., the codecs in turn, on all cores: a run that is stopped has tried all of them.
With ENGINE=libfuzzer in the environment (CC=clang) coverage decides what is tried next; build/fuzz/corpus keeps what it found.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODECS = ("natural", "natural8", "dithering", "sign", "topk", "randk", "lowrank", "grid")
FLAGS = ["-std=gnu11", "-fPIC", "-ffp-contract=off", "-fno-sanitize-recover=all", "-fsanitize=address,undefined"]
FLAGS.append("-DSTREAM_FROM=1024")  # bytes: what writes large arrays past the caches does so with these small ones too
SLICE = 500_000
LIBFUZZER = os.environ.get("ENGINE") == "libfuzzer"
LEVELS = {1: (), 3: ("-march=x86-64-v3",), 4: ("-march=x86-64-v4",)}


def build(folder: Path, levels: tuple[int, ...] = (1, 3, 4), optimize: str = "-O2") -> tuple[Path, Path]:
    """(program, library) with sanitizers: any fault ends the program."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = [*os.environ.get("CC", "cc").split(), *FLAGS, optimize]
    guided = ["-fsanitize=fuzzer-no-link"] if LIBFUZZER else []
    levels = levels if platform.machine() in ("x86_64", "AMD64") else (1,)
    jobs = {folder / f"{source.stem}{level}.o": (source, level) for level in levels for source in _sources()}
    jobs[folder / "level1.o"] = ROOT / "kernels" / "cpu" / "level.c", 1  # it alone says what the processor can do
    program, library = folder / "fuzz", folder / "libmpicomp.so"
    commands = [
        [*compiler, *guided, *LEVELS[level], f"-DMC_LEVEL={level}", "-c", str(source), "-o", str(target)]
        for target, (source, level) in jobs.items()
    ]
    commands.append(
        [
            *compiler,
            "-O2",
            "-fno-sanitize=undefined",
            "-Wall",
            *(["-DLIBFUZZER", "-fsanitize=fuzzer"] if LIBFUZZER else []),
            str(ROOT / "tests" / "fuzz" / "fuzz.c"),
            "-o",
            str(program),
            "-ldl",
        ]
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_call, commands))
    _call([*compiler, "-shared", "-o", str(library), *map(str, jobs)])
    return program, library


def run(program: Path, library: Path, codec: str, inputs: int, seed: int) -> str:
    """What the program says; RuntimeError with its report if it finds a fault."""
    if not LIBFUZZER:
        return _call([str(program), str(library), codec, str(inputs), str(seed)]).strip()
    corpus = program.parent / "corpus" / codec
    corpus.mkdir(parents=True, exist_ok=True)
    words = [f"-runs={inputs}", f"-seed={seed}", "-max_len=4096", "-timeout=60", "-verbosity=0", str(corpus)]
    _call([str(program), *words], FUZZ_LIBRARY=str(library), FUZZ_CODEC=codec)
    return f"{codec}: {inputs} inputs, {len([*corpus.iterdir()])} kept for what they reach, nothing found"


def _sources() -> list[Path]:
    return sorted((ROOT / "kernels" / "cpu").glob("*.c"))


def _call(command: list[str], **variables: str) -> str:
    options = {"ASAN_OPTIONS": "quarantine_size_mb=8", "UBSAN_OPTIONS": "print_stacktrace=1"}
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **options, **variables})
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def main(inputs: str = "100000", seed: str = "1", *codecs: str) -> None:
    program, library = build(ROOT / "build" / "fuzz")
    cuts = [*range(0, int(inputs), SLICE), int(inputs)]
    jobs = [
        (codec, hi - lo, int(seed) + i) for i, (lo, hi) in enumerate(zip(cuts, cuts[1:])) for codec in codecs or CODECS
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (_, _, used), said in zip(jobs, pool.map(lambda job: run(program, library, *job), jobs)):
            print(f"{said} (seed {used})", flush=True)
    print(f"{inputs} inputs of {', '.join(codecs or CODECS)}: nothing found", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
