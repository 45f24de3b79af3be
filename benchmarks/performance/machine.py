"""What the numbers hold for."""

from __future__ import annotations

import platform
from typing import Any

from benchmarks import page

from .runs import RUNS


def machine(results: Any) -> str:
    """The machine, MPIs, and of which commits the results are."""
    found = [content for content in (results.get(run.name) for run in RUNS) if content]

    def every(key: str) -> str:
        return ", ".join(dict.fromkeys(str(content[key]) for content in found if key in content))

    lines = [
        f"- {page.machine()}",
        f"- Python {platform.python_version()}, {every('MPI')}, kernels in {every('kernels')}, one thread a rank",
        f"- mpicomp at {every('commit')}, {every('date')}",
    ]
    return "\n".join(lines)
