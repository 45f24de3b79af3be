"""No code comes from data, and files are neither half written nor believed."""

from __future__ import annotations

import ast
import json
import os
import stat
from pathlib import Path

import pytest

import mpicomp
from mpicomp import tuning
from mpicomp.timeline import Timeline
from mpicomp.timing import Table

PACKAGE = Path(mpicomp.__file__).parent
BAD_CALLS = {"eval", "exec", "compile", "__import__"}
BAD_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "yaml"}
PICKLING = {
    "send",
    "recv",
    "isend",
    "irecv",
    "bcast",
    "gather",
    "scatter",
    "allgather",
    "allreduce",
    "alltoall",
    "reduce",
}


def trees():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text())


def test_nothing_is_evaluated_or_unpickled():
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in BAD_CALLS, f"{path}:{node.lineno}"
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
                assert not {name.partition(".")[0] for name in names} & BAD_MODULES, f"{path}:{node.lineno}"


def test_no_message_is_pickled():
    """mpi4py's lower-case methods pickle. `comm.allgather` and the like are for nobody here but the demo, which says so."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PICKLING:
                owner = ast.unparse(node.func.value)
                assert not owner.endswith(("comm", "COMM_WORLD", "WORLD")) or path.parts[0] == "cli", (
                    f"{path}:{node.lineno}"
                )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        "{",
        "\x00\xff",
        '{"mpicomp tuning": 99, "tables": {}}',
        '{"mpicomp tuning": 1, "tables": {"x": {"ring": [[1, -1]]}}}',
        '{"mpicomp tuning": 1, "tables": {"x": {"ring": [[1, 1e999]]}}}',
        '{"mpicomp tuning": 1, "tables": {"x": {"ring": [[1e999, 1]]}}}',
        '{"mpicomp tuning": 1, "tables": {"x": {"ring": "__import__"}}}',
        '{"mpicomp tuning": 1, "tables": {"x": [[[]]]}}',
        '{"mpicomp tuning": 1, "tables": {"x": {"ring": [[1, NaN]]}}}',
        '{"mpicomp tuning": 1, "tables": {"x": {}}}',
        '{"mpicomp tuning": 1, "tables": {"x": {"bogus": [[1, 1]]}}}',
        '{"mpicomp tuning": 1, "tables": {"x": {"raw": [[8, 1], [8, 2]]}}}',
        "[" * 100_000,
    ],
)
def test_a_tuning_file_that_is_none_is_ignored_with_a_warning(tmp_path, content):
    path = tmp_path / "tuning.json"
    path.write_text(content, encoding="latin-1")
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert tuning._read(str(path)) == {}


def test_files_are_replaced_in_one_step_and_are_not_for_others_to_write(tmp_path):
    path = str(tmp_path / "new" / "tuning.json")
    table = Table("a test")
    table.add("raw", 1000, 0.5)
    before = os.umask(0)
    try:
        tuning.save(path, "a", table)
    finally:
        os.umask(before)
    tuning.save(path, "b", table)
    assert set(tuning._read(path)) == {"a", "b"}
    line = str(tmp_path / "timeline.json")
    Timeline(line, 0).write()
    assert json.loads(Path(line).read_text()) == {"traceEvents": []}
    for written in (path, line, os.path.dirname(path)):
        assert not os.stat(written).st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    assert os.listdir(os.path.dirname(path)) == ["tuning.json"]
    assert sorted(os.listdir(tmp_path)) == ["new", "timeline.json"]


def test_an_audit_without_the_internet_finds_the_versions_with_holes(tmp_path):
    import audit

    events = [{"fixed": "1.3"}, {"introduced": "1.0"}, {"introduced": "2.0rc1"}, {"last_affected": "2.2"}]
    affected = {"package": {"name": "A_b", "ecosystem": "PyPI"}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "OSV-1.json").write_text(json.dumps({"id": "OSV-1", "modified": "2", "affected": [affected]}))
    listed = {"package": affected["package"], "versions": ["0.5", "not a version"]}
    (tmp_path / "OSV-2.json").write_text(json.dumps({"id": "OSV-2", "modified": "1", "affected": [listed]}))
    (tmp_path / "insecure.json").write_text(json.dumps({"$meta": {"timestamp": 0}, "other": ["<1", ">2,<3", "odd"]}))
    known = audit.read(tmp_path)
    assert [*audit.summary(known)][0] == "OSV: 2 advisories, the last of 2"

    def found(name, version):
        return [hole["id"] for hole in audit.holes(known, name, version)]

    assert all(found("a-b", version) for version in ("0.5", "1.0", "1.2.9", "2.0rc1", "2.2"))
    assert not any(found("a-b", version) for version in ("0.4", "1.3", "2.0b1", "2.2.1"))
    assert found("other", "0.9") == ["SafetyDB-other<1", "SafetyDB-otherodd"], "what cannot be read is no all-clear"
    assert found("other", "3.1") == ["SafetyDB-otherodd"] and not found("unknown", "1")
