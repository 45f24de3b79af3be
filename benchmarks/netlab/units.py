"""Quantities as people write them: 1Gbit, 0.1ms, 1%."""

from __future__ import annotations

import re

_BITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}
_SECONDS = {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6}


def _split(text: object, what: str, example: str) -> tuple[float, str]:
    match = re.fullmatch(r"([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z/%]*)", str(text).strip().lower())
    if not match:
        raise ValueError(f"{what} {text!r} is not a quantity such as {example}")
    return float(match[1]), match[2]


def bits_per_second(text: object) -> int:
    """'1Gbit', '100Mbit/s' or a plain number, in bit/s."""
    number, unit = _split(text, "bandwidth", "100Mbit")
    prefix = re.sub(r"(bit(/s|ps)?|bps)$", "", unit)
    if prefix not in _BITS or number <= 0:
        raise ValueError(f"bandwidth {text!r} is not a rate such as 100Mbit or 1Gbit")
    return round(number * _BITS[prefix])


def seconds(text: object) -> float:
    """'0.1ms', '50us', '1s' or a plain number of seconds."""
    number, unit = _split(text, "latency", "0.1ms")
    if unit not in _SECONDS:
        raise ValueError(f"latency {text!r} is not a time such as 50us or 0.1ms")
    return number * _SECONDS[unit]


def probability(text: object) -> float:
    """'1%' or 0.01."""
    number, unit = _split(text, "loss", "1%")
    number = number / 100 if unit == "%" else number
    if unit not in ("", "%") or not 0 <= number < 1:
        raise ValueError(f"loss {text!r} is not a probability such as 1% or 0.01")
    return number
