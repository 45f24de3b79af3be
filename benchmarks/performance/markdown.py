"""Cells and tables in Markdown."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from .results import Results, spec_of


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


def name_of(spec: str) -> str:
    return "`" + spec_of(spec).replace("|", "\\|") + "`"


def commands(results: Results, *names: str) -> str:
    shown = [content["command"] for content in map(results.get, names) if content]
    return "```\n" + "\n".join(dict.fromkeys(shown)) + "\n```"
