"""Fill docs/training.md with tables, and draw its pictures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.page import fill

from . import pictures
from .results import Results
from .tables import TABLES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def everything(folder: Path) -> None:
    """Tables and pictures that the page has a place for."""
    results = Results(folder)
    text = fill(DOCS / "training.md", {name: partial(make, results) for name, make in TABLES.items()})
    for name, draw in pictures.PICTURES.items():
        if f"training-{name}.png" in text:
            draw(results, DOCS / "images" / f"training-{name}.png")
