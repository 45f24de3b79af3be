"""The kernels in NumPy: the oracle of the tests, and what runs where no C library could be built.

Every kernel is here under its name without `mc_`, with the same arguments, arrays in place of pointers.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Callable


@cache
def find(name: str) -> Callable[..., None]:
    """The kernel of that name, from whichever file of this folder defines it."""
    for module in pkgutil.iter_modules(__path__, __name__ + "."):
        function = getattr(importlib.import_module(module.name), name, None)
        if function is not None:
            return function
    raise ValueError(f"no kernel named {name!r}")
