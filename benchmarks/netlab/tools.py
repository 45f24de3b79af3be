"""What a lab needs of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = {"ip": "iproute2", "tc": "iproute2", "iptables": "iptables", "gcc": "gcc", "nsenter": "util-linux"}


class LabError(RuntimeError):
    """The lab cannot be built or changed; the message says what to do."""


def require(*programs: str) -> None:
    """Raise unless we are root and these programs are there."""
    if os.geteuid():
        raise LabError("a lab needs root: it makes network namespaces (in a container: --privileged)")
    missing = sorted({PACKAGES[program] for program in programs if not shutil.which(program)})
    if missing:
        raise LabError(f"missing programs: apt-get install {' '.join(missing)}")


def nfdelay() -> Path:
    """The program beside its source, compiled where missing or old."""
    source = Path(__file__).resolve().with_name("nfdelay.c")
    program = source.with_suffix("")
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        require("gcc")
        subprocess.run(["gcc", "-O2", "-Wall", "-o", str(program), str(source)], check=True)
    return program
