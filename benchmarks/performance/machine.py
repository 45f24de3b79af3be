"""What the numbers hold for."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from .runs import RUNS


def machine(results: Any) -> str:
    """Processor, cores, memory, system, MPIs, and of which commits the results are."""
    found = [content for content in (results.get(run.name) for run in RUNS) if content]

    def every(key: str) -> str:
        return ", ".join(dict.fromkeys(str(content[key]) for content in found if key in content))

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [
        f"- {_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.release()}",
        f"- Python {platform.python_version()}, {every('MPI')}, kernels in {every('kernels')}, one thread a rank",
        f"- mpicomp at {every('commit')}, {every('date')}",
    ]
    return "\n".join(lines)


def _processor() -> str:
    """Its name, and family and model, since virtual machines have names that say little."""
    facts = dict(
        tuple(part.strip() for part in line.partition(":")[::2])
        for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    )
    if "model name" not in facts:
        return platform.machine()
    return f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')})"
