"""Numbers of the command line: types for argparse, whose messages say what is possible."""

from __future__ import annotations

import argparse

from ..tuning import RuleError, parse_size

SMALLEST = 4  # bytes: a value of float32


def positive(text: str) -> int:
    return _whole(text, 1)


def not_negative(text: str) -> int:
    return _whole(text, 0)


def size(text: str) -> int:
    """64K, 1M: bytes, of one value at least."""
    try:
        nbytes = parse_size(text)
    except RuleError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if nbytes < SMALLEST:
        raise argparse.ArgumentTypeError(f"{text!r} is too small: a size is at least {SMALLEST} bytes")
    return nbytes


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number
