"""The settings of a communicator or of one call: arguments first, then MPICOMP_* variables, then defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from math import lcm
from typing import Any, Optional

from .checks import whole
from .codecs import Codec, codec
from .errors import Error, SettingError
from .schedules import ALLREDUCE, parse

ALGORITHMS = ("auto", "raw", *ALLREDUCE, "lowrank")


@dataclass(frozen=True)
class Settings:
    """How a collective travels: up-link and down-link codec, algorithm, seed, bytes of a segment (None: chosen)."""

    codec: Codec
    down: Codec
    algorithm: str = "auto"
    seed: int = 0
    segment: Optional[int] = None
    feedback: str = ""  # of a persistent collective: "", "feedback" or "ef21"

    @property
    def grain(self) -> int:
        """Wires of both codecs can be cut at multiples of this many values."""
        return lcm(self.codec.grain, self.down.grain)

    def wire(self, n: int, kind: str) -> int:
        """Bytes of n values on their way, in the codec that needs more; 0 where one cannot carry them."""
        both = (self.codec, self.down)
        return max(each.size(n, kind) for each in both) if all(kind in each.kinds for each in both) else 0

    @property
    def packs(self) -> bool:
        """Whether small arrays may travel as one: no value is dropped, and nothing is remembered of each."""
        return not self.feedback and self.codec.dense and self.down.dense

    def override(
        self,
        codec: Any = None,
        algorithm: Optional[str] = None,
        seed: Optional[int] = None,
        segment: Optional[int] = None,
        feedback: Any = None,
    ) -> Settings:
        """These settings, with those that are not None replaced."""
        changes: dict[str, Any] = {}
        if codec is not None:
            changes["codec"], changes["down"] = _pair(codec)
        if algorithm is not None:
            changes["algorithm"] = _algorithm(algorithm)
        if seed is not None:
            changes["seed"] = whole("seed", seed)
        if segment is not None:
            changes["segment"] = whole("segment", segment, least=1)
        if feedback is not None:
            changes["feedback"] = _feedback(feedback)
        return replace(self, **changes) if changes else self


def make(
    codec: Any = None, algorithm: Optional[str] = None, seed: Optional[int] = None, segment: Optional[int] = None
) -> Settings:
    """Settings from arguments, else from MPICOMP_CODEC, MPICOMP_ALGORITHM, MPICOMP_SEED, MPICOMP_SEGMENT, else the defaults."""
    defaults = Settings(*_pair("natural"))
    return _from_variables(defaults).override(codec, algorithm, seed, segment)


def _from_variables(settings: Settings) -> Settings:
    """Settings overridden by the variables that are set; an error names the variable."""
    for name in ("codec", "algorithm", "seed", "segment"):
        text = os.environ.get(f"MPICOMP_{name.upper()}")
        if text is not None:
            value = _digits(text) if name in ("seed", "segment") else text
            try:
                settings = settings.override(**{name: value})  # type: ignore[arg-type]
            except Error as error:
                raise type(error)(f"MPICOMP_{name.upper()}: {error}") from None
    return settings


def _pair(spec: Any) -> tuple[Codec, Codec]:
    """(up, down) from one codec or a pair of them."""
    if isinstance(spec, (tuple, list)):
        if len(spec) != 2:
            raise SettingError(f"codec={spec!r} must be one codec or a pair (up, down)")
        return codec(spec[0]), codec(spec[1])
    one = codec(spec)
    return one, one


def _algorithm(spec: str) -> str:
    try:
        name, _ = parse(spec)
    except ValueError as error:
        raise SettingError(str(error)) from None
    if name not in ALGORITHMS:
        raise SettingError(f"no algorithm named {name!r} (known: {', '.join(ALGORITHMS)})")
    return spec


def _feedback(value: Any) -> str:
    """True is error feedback; "ef21" is what it says."""
    if isinstance(value, bool):
        return "feedback" if value else ""
    if value not in ("", "feedback", "ef21"):
        raise SettingError(f"feedback={value!r} must be True, False or 'ef21'")
    return value


def _digits(text: str) -> Any:
    """The number that a text says, or the text."""
    try:
        return int(text)
    except ValueError:
        return text


def wanted(name: str) -> str:
    """The value of the variable MPICOMP_name, empty where it is not set or "0"."""
    value = os.environ.get(f"MPICOMP_{name}", "")
    return "" if value == "0" else value
