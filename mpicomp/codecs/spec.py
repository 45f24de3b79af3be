"""Codecs from their specs: `natural`, `natural:bits=8,rounding=nearest`, chains `topk:ratio=0.01|natural`."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, Union

from ..errors import CodecError
from .base import REGISTRY, Codec
from .chain import chain
from .zstd import Zstd


def names() -> list[str]:
    """The names of all codecs."""
    return sorted(REGISTRY)


def codec(spec: Union[str, Codec]) -> Codec:
    """The codec that a spec describes; a codec is returned as it is."""
    if isinstance(spec, Codec):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"codec must be a spec or a Codec, not {type(spec).__name__}")
    before, bar, last = spec.rpartition("|")
    name, _, settings = last.strip().partition(":")
    name = name.strip()
    if name == Zstd.name:
        return _coded(before, settings, spec)
    if bar:
        return chain([codec(part) for part in spec.split("|")])
    if name not in REGISTRY:
        known = [*names(), Zstd.name]
        raise CodecError(f"no codec named {name!r}{_guess(name, known)} (known: {', '.join(known)})")
    cls = REGISTRY[name]
    try:
        return cls(**_settings(cls, settings, spec))
    except CodecError as error:
        raise CodecError(f"codec {spec!r}: {error}") from None


def _coded(before: str, settings: str, spec: str) -> Codec:
    if not before.strip():
        raise CodecError(f"codec {spec!r}: zstd codes what another codec writes, and comes last: natural|zstd")
    inner = codec(before)
    try:
        return Zstd(inner, **_settings(Zstd, settings, spec))
    except CodecError as error:
        raise CodecError(f"codec {spec!r}: {error}") from None


def _settings(cls: type[Codec], text: str, spec: str) -> dict[str, Any]:
    fields = {field.name: field for field in dataclasses.fields(cls) if field.default is not dataclasses.MISSING}
    found: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise CodecError(f"setting {item!r} has no value; write {item}=...")
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise CodecError(f"{cls.name} has no setting {key!r}{_guess(key, fields)} (known: {known})")
        if key in found:
            raise CodecError(f"setting {key!r} is given twice")
        found[key] = _value(key, value, fields[key].type)
    if len(both := [key for key in cls.either if key in found]) > 1:
        raise CodecError(f"{cls.name}: give {' or '.join(f'{key}=' for key in both)}, not both")
    return found


def _value(key: str, text: str, annotation: Any) -> Any:
    """text as the type that a dataclass field is annotated with."""
    wanted = str(annotation)
    if "bool" in wanted:
        if text.lower() in ("true", "1", "yes"):
            return True
        if text.lower() in ("false", "0", "no"):
            return False
        raise CodecError(f"setting {key}={text!r} must be true or false")
    for mark, make in (("int", int), ("float", float)):
        if mark in wanted:
            try:
                return make(text)
            except ValueError:
                if "str" not in wanted and not (mark == "int" and "float" in wanted):
                    raise CodecError(
                        f"setting {key}={text!r} must be {'a whole number' if make is int else 'a number'}"
                    ) from None
    return text


def _guess(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
