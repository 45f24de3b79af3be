"""Values that people give, as arguments and as MPICOMP_* variables: what they must be, in the same words everywhere."""

from __future__ import annotations

import operator
from typing import Any, Optional

from .errors import SettingError


def whole(name: str, value: Any, least: Optional[int] = None) -> int:
    """An integer of any sort, NumPy's too, as Python's. No float is one, and no text."""
    try:
        number = operator.index(value)
    except TypeError:
        raise SettingError(f"{name}={value!r} must be a whole number") from None
    if least is not None and number < least:
        raise SettingError(f"{name}={value!r} must be at least {least}")
    return number
