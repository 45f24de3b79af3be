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


def save(path: str, name: str, table: Table) -> None:
    """Add a table to a file, replacing the file in one step."""
    tables = _read(path) if os.path.exists(path) else {}
    tables[name] = table.points
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)  # whatever the umask: others could put a file of theirs in its place
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".tuning-")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump({"mpicomp tuning": VERSION, "tables": tables}, file, indent=1)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read(path: str) -> dict[str, Any]:
    """name -> points of a tuning file, with everything checked."""
    try:
        with open(path) as file:
            content = json.load(file)
        if content["mpicomp tuning"] != VERSION:
            raise ValueError(f"version {content['mpicomp tuning']!r}")
        return {str(name): _points(points) for name, points in content["tables"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        warnings.warn(
            f"the tuning file {path} is not used: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=4
        )
        return {}


def _points(points: Any) -> dict[str, list[tuple[int, float]]]:
    checked = {str(name): [(int(b), float(s)) for b, s in row] for name, row in points.items()}
    if not all(row and all(b > 0 and 0 < s < 1e6 for b, s in row) for row in checked.values()):
        raise ValueError("a time that cannot be")
    if "raw" not in checked or any(len({b for b, _ in row}) < len(row) for row in checked.values()):
        raise ValueError("no time of MPI's own, or two for one size")
    return {name: sorted(row) for name, row in checked.items()}
