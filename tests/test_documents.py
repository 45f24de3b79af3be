"""The documents: links lead somewhere, and what they say about the code is so."""

from __future__ import annotations

import re
from pathlib import Path

import launch
import pytest

import mpicomp
from mpicomp.codecs import names

DOCUMENTS = sorted([*launch.ROOT.glob("*.md"), *launch.ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_files_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_codec_is_in_the_description_of_the_wires():
    text = (launch.ROOT / "docs" / "wire-format.md").read_text()
    for name in names():
        assert re.search(rf"\b{name}\b", text), name


def test_the_layers_of_the_drawing_are_there():
    drawing = (launch.ROOT / "CONTRIBUTING.md").read_text().split("```")[3]
    for line in drawing.strip().splitlines():
        for name in re.findall(r"[\w/.]+(?=,| {2})", line.split("  ")[0] + "  "):
            folder = (
                Path("mpicomp")
                if not name.startswith(("mpicomp", "kernels", "tests", "benchmarks", "docs"))
                else Path()
            )
            assert (launch.ROOT / folder / name).exists(), name


def test_versions_agree():
    config = (launch.ROOT / "setup.cfg").read_text()
    assert f"version = {mpicomp.__version__}" in config
    assert f"## {mpicomp.__version__}" in (launch.ROOT / "CHANGELOG.md").read_text()
