"""Tuning files (MPICOMP_TUNING) and rules by hand (MPICOMP_ALLREDUCE).

A tuning file is JSON that `mpirun ... python -m mpicomp tune` writes: for each MPI library, number of ranks, number of
hosts and codec the measured times. It is read as untrusted data: what is not of that form is ignored with a warning.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from typing import Any, Optional

from .errors import Error
from .timing import Table

VERSION = 1
# What a look into a file of another form may raise
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class RuleError(Error, ValueError):
    """MPICOMP_ALLREDUCE or a size that cannot be understood."""


def parse_size(text: str) -> int:
    """Bytes of "8192", "64K", "1M", "1.5G"; "max" is no limit."""
    if text.strip().lower() == "max":
        return 1 << 62
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)i?B?\s*", text, re.IGNORECASE)
    if not match:
        raise RuleError(f"{text!r} is not a size (write 8192, 64K, 1M or max)")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def rule(nbytes: int, known: Any) -> Optional[str]:
    """The algorithm that MPICOMP_ALLREDUCE="raw:0-8192;direct:8193-1M;ring:1M-max" names for this many bytes."""
    for part in filter(None, os.environ.get("MPICOMP_ALLREDUCE", "").split(";")):
        name, colon, limits = part.strip().partition(":")
        low, dash, high = (limits or "0-max").partition("-")
        if name not in known or (colon and not dash):
            raise RuleError(f"MPICOMP_ALLREDUCE: {part!r} is not ALGORITHM:FROM-TO (algorithms: {', '.join(known)})")
        if parse_size(low) <= nbytes <= parse_size(high):
            return name
    return None


def key(port: Any, codec: Any, down: Any, kind: str) -> str:
    """What a table is good for. Collective the first time: the hosts are counted."""
    from mpi4py import MPI

    library = MPI.Get_library_version().splitlines()[0].strip()[:80]
    return f"{library}|ranks={port.size}|hosts={port.count_hosts()}|{codec}|{down}|{kind}"


def load(port: Any, codec: Any, down: Any, kind: str) -> Optional[Table]:
    """The table of rank 0's MPICOMP_TUNING file for this communicator, on every rank; None if there is none."""
    path = os.environ.get("MPICOMP_TUNING", "")
    name = key(port, codec, down, kind)
    points = _read(path).get(name) if port.rank == 0 and path else None
    points = json.loads(port.share(json.dumps(points).encode()))
    return None if points is None else Table(f"from {os.path.basename(path) or 'the tuning file'}", points)


def prepare(path: str) -> None:
    """Raises where `save` could not write, or would replace what is no tuning file."""
    try:
        handle, temporary = _temporary(path)
        os.close(handle)
        os.unlink(temporary)
        if _holds(path):
            with open(path) as file:
                _tables(json.load(file))
    except OSError as error:
        raise Error(f"{path} cannot be written: {error}") from error
    except MALFORMED as error:
        raise Error(f"{path} is there and is no tuning file: nothing is added to it") from error


def save(path: str, name: str, table: Table) -> None:
    """Add a table to a file, replacing the file in one step."""
    tables = _read(path) if _holds(path) else {}
    tables[name] = table.points
    handle, temporary = _temporary(path)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump({"mpicomp tuning": VERSION, "tables": tables}, file, indent=1)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _holds(path: str) -> bool:
    """Whether there is anything at a path that a table could be added to: an empty file is as good as none."""
    return os.path.exists(path) and not (os.path.isfile(path) and os.path.getsize(path) == 0)


def _temporary(path: str) -> tuple[int, str]:
    """A new file beside `path`, open, and its name."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)  # whatever the umask: others could put a file of theirs in its place
    return tempfile.mkstemp(dir=folder, prefix=".tuning-")


def _read(path: str) -> dict[str, Any]:
    """name -> points of a tuning file, with everything checked; without the tables that are not of that form."""
    found = {}
    try:
        with open(path) as file:
            tables = _tables(json.load(file))
    except (OSError, *MALFORMED) as error:
        _warn(f"the tuning file {path} is not used", error)
        return {}
    for name, points in tables.items():
        try:
            found[str(name)] = _points(points)
        except MALFORMED as error:
            _warn(f"a table of the tuning file {path} is not used ({str(name)[:200]})", error)
    return found


def _warn(what: str, error: Exception) -> None:
    warnings.warn(f"{what}: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=5)


def _tables(content: Any) -> dict[str, Any]:
    """name -> points, not yet checked, of what a file holds."""
    if content["mpicomp tuning"] != VERSION:
        raise ValueError(f"version {content['mpicomp tuning']!r}")
    return dict(content["tables"].items())


def _points(points: Any) -> dict[str, list[tuple[int, float]]]:
    checked = {str(name): [(int(b), float(s)) for b, s in row] for name, row in points.items()}
    if not all(row and all(b > 0 and 0 < s < 1e6 for b, s in row) for row in checked.values()):
        raise ValueError("a time that cannot be")
    if "raw" not in checked or any(len({b for b, _ in row}) < len(row) for row in checked.values()):
        raise ValueError("no time of MPI's own, or two for one size")
    return {name: sorted(row) for name, row in checked.items()}
