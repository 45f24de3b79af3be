"""Values that people give, as arguments and as MPICOMP_* variables: what they must be, in the same words everywhere."""

from __future__ import annotations

import math
import operator
import os
from typing import Any, Optional, Sequence

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


def finite(name: str, value: Any) -> float:
    """A number that is neither infinite nor NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SettingError(f"{name}={value!r} must be a finite number")
    return number


def number(variable: str, default: int) -> int:
    """The whole number that a variable has, or the default where it is not set."""
    text = os.environ.get(variable)
    try:
        return int(text) if text else default
    except ValueError:
        raise SettingError(f"{variable}={text!r} must be a whole number") from None


def choice(variable: str, known: Sequence[str]) -> str:
    """The value of a variable, one of those known; the first where it is not set."""
    text = os.environ.get(variable) or known[0]
    if text not in known:
        raise SettingError(f"{variable}={text!r} must be one of {', '.join(known)}")
    return text
