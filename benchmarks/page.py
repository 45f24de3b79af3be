"""Pages whose tables are made of results: numbers, tables, what is filled in, the machine."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional


class Folder:
    """Results as files of JSON; None for what was not measured."""

    def __init__(self, folder: Path):
        self.folder = folder

    def get(self, name: str) -> Optional[dict[str, Any]]:
        file = self.folder / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else None


def number(value: Optional[float], digits: int = 3) -> str:
    """Significant digits, without an exponent."""
    if value is None:
        return "-"
    places = max(digits - len(str(int(abs(value)))), 0)
    return f"{value:.{places}f}"


def table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def fill(page: Path, tables: Mapping[str, Callable[[], str]]) -> str:
    """Replace what stands between <!-- name --> and <!-- /name -->; the rest is written by hand, and tables that have no place
    there are left out. The new text of the page."""
    text = page.read_text()
    for name, make in tables.items():
        before, opening, rest = text.partition(f"<!-- {name} -->\n")
        _, closing, after = rest.partition(f"<!-- /{name} -->")
        if closing:
            text = f"{before}{opening}\n{make()}\n\n{closing}{after}"
    page.write_text(text)
    return text


def machine() -> str:
    """Processor, cores, memory and system of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.release()}"


def _processor() -> str:
    """Its name, and family and model, since virtual machines have names that say little."""
    facts = dict(
        tuple(part.strip() for part in line.partition(":")[::2])
        for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    )
    if "model name" not in facts:
        return platform.machine()
    return f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')})"


def pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
