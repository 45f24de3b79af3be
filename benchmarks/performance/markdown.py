"""Cells in Markdown."""

from __future__ import annotations

from .results import Results, spec_of


def name_of(spec: str) -> str:
    return "`" + spec_of(spec).replace("|", "\\|") + "`"


def commands(results: Results, *names: str) -> str:
    shown = [content["command"] for content in map(results.get, names) if content]
    return "```\n" + "\n".join(dict.fromkeys(shown)) + "\n```"
