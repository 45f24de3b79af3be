"""Fill docs/performance.md with tables, and draw its pictures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.page import fill

from . import pictures
from .results import Results
from .runs import ROOT
from .tables import TABLES

PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"


def everything(folder: Path) -> None:
    """Tables and pictures that the page has a place for."""
    results = Results(folder)
    text = fill(PAGE, {name: partial(make, results) for name, make in TABLES.items()})
    for name, draw in pictures.PICTURES.items():
        if f"performance-{name}.png" in text:
            draw(results, IMAGES / f"performance-{name}.png")
