"""Fill docs/performance.md with tables, and draw its pictures."""

from __future__ import annotations

from pathlib import Path

from . import pictures
from .results import Results
from .runs import ROOT
from .tables import TABLES

PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"


def everything(folder: Path) -> None:
    """What stands between <!-- name --> and <!-- /name --> is replaced; the rest of the page is written by hand. Tables and
    pictures that the page has no place for are left out."""
    results, text = Results(folder), PAGE.read_text()
    for name, make in TABLES.items():
        before, opening, rest = text.partition(f"<!-- {name} -->\n")
        _, closing, after = rest.partition(f"<!-- /{name} -->")
        if closing:
            text = f"{before}{opening}\n{make(results)}\n\n{closing}{after}"
    PAGE.write_text(text)
    for name, draw in pictures.PICTURES.items():
        if f"performance-{name}.png" in text:
            draw(results, IMAGES / f"performance-{name}.png")
