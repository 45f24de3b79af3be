"""Allreduce of small arrays at MPI's own speed: what shortcut.c does, without which nothing but speed is lost."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Optional

import numpy as np
from mpi4py import MPI

LIBRARY = Path(__file__).with_name("libshortcut.so")


def method(cls: type, slow: Any) -> Any:
    """`slow`, a method of cls; but calls for arrays that were remembered are mpi4py's method of that name. For one in all."""
    if _library is None:
        return slow
    names = [ctypes.c_char_p(text.encode()) for text in (slow.__name__, slow.__doc__ or "")]
    _KEPT.extend(names)
    make = _library.method
    make.argtypes = [ctypes.py_object, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    make.restype = ctypes.py_object
    given: list[Any] = [getattr(MPI.Intracomm, slow.__name__), slow, np.ndarray, list, MPI.Datatype, MPI.IN_PLACE]
    return make(cls, *names, (ctypes.py_object * len(given))(*given))


def remember(comm: Any, x: np.ndarray) -> None:
    """From now on arrays like x are MPI's on this communicator."""
    if _library is not None:
        _library.remember(ctypes.py_object(comm), ctypes.py_object(x), ctypes.c_ssize_t(x.nbytes))


def forget(comm: Any) -> None:
    """For every new communicator: it may lie where another one was."""
    if _library is not None:
        _library.forget(ctypes.py_object(comm))


def _load() -> Optional[ctypes.PyDLL]:
    try:
        library = ctypes.PyDLL(str(LIBRARY))
    except OSError:  # not built, or a Python that is not C's
        return None
    x = np.empty((3, 5), np.float32)
    objects = [ctypes.py_object(each) for each in (x, np.ndarray, x.dtype)]
    fits = library.fits(*objects, ctypes.c_ssize_t(x.size), ctypes.c_void_p(x.ctypes.data))
    return library if object.__basicsize__ == 16 and fits else None


_library = _load()
_KEPT: list[ctypes.c_char_p] = []  # the method points to them
