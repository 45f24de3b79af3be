"""What compilers make of a source, in build/emulation: made by the first test that asks, for all processes and later runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Callable

FOLDER = Path(__file__).parent.parent.parent / "build" / "emulation"


def kept(suffix: str, *made_of: str, make: Callable[[Path], object]) -> Path:
    """The file that `make` writes. `made_of` says all that it depends on; who wants the same one waits for the first."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:20]
    path = FOLDER / f"{name}{suffix}"
    with open(FOLDER / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            unfinished = path.with_suffix(f".{os.getpid()}")
            make(unfinished)
            unfinished.rename(path)
    return path
