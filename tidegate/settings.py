"""Conversion of one setting, text or value, to the type its option declares.

Example:
    >>> parse_setting("10 s", int, "poll_timeout_ms", "poll.timeout")
    10000
    >>> parse_setting("64 kb", int, "buffer_bytes", "buffer.size")
    65536
"""

from __future__ import annotations

import datetime
import enum
import re
import types
import typing
from pathlib import Path
from typing import Any, Final, Literal

from tidegate.errors import ConfigError

__all__ = ["parse_setting"]

_MILLISECONDS: Final = {
    "ms": 1,
    "s": 1_000,
    "sec": 1_000,
    "min": 60_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_BYTES: Final = {
    unit: 1_024**power
    for power, units in enumerate((("b",), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb")))
    for unit in units
}
_UNITS: Final = {
    "_ms": ("a duration such as '500 ms' or '10 s'", _MILLISECONDS),
    "_bytes": ("a size such as '64 kb'", _BYTES),
}
_TRUTH: Final = {"true": True, "false": False}


def parse_setting(value: Any, expected: Any, name: str, label: str) -> Any:
    """The value as the type `expected`; a field `name` ending in `_ms` or `_bytes` also takes a unit.

    Raises:
        ConfigError: it is not of that type and cannot be read as it; the message begins with `label`.
    """
    try:
        return _parse(value, expected, name)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{label} has an invalid value; got {value!r}; expected {_describe(expected, name)}"
        ) from error


def _parse(value: Any, expected: Any, name: str) -> Any:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in (typing.Union, types.UnionType):
        inner = [item for item in arguments if item is not types.NoneType]
        return None if value is None and len(inner) < len(arguments) else _parse(value, inner[0], name)
    if origin is Literal:
        return _parse_choice(value, arguments)
    if origin is tuple:
        parts = (
            [part.strip() for part in re.split("[,;]", value) if part.strip()]
            if isinstance(value, str)
            else value
        )
        if not isinstance(parts, list | tuple):
            raise TypeError(value)
        return tuple(_parse(part, arguments[0], name) for part in parts)
    if expected is int:
        return _parse_int(value, name)
    if expected is bool and isinstance(value, str):
        return _TRUTH[value.strip().lower()]
    if expected is float and not isinstance(value, bool):
        return float(value)
    if expected is Path and isinstance(value, str):
        return Path(value)
    if issubclass(expected, enum.Enum) and isinstance(value, str):
        return _parse_member(value, expected)
    if not isinstance(value, expected):
        raise TypeError(value)
    return value


def _parse_int(value: Any, name: str) -> int:
    suffix = next((suffix for suffix in _UNITS if name.endswith(suffix)), None)
    if suffix == "_ms" and isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, str):
        return int(value) if suffix is None else _parse_amount(value, _UNITS[suffix][1])
    if type(value) is not int:
        raise TypeError(value)
    return value


def _parse_amount(text: str, units: dict[str, int]) -> int:
    match = re.fullmatch(r"\s*(-?\d+)\s*([a-z]*)\s*", text.lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * (units[match[2]] if match[2] else 1)


def _parse_choice(value: Any, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if (value == choice and type(value) is type(choice)) or str(choice) == value:
            return choice
    raise ValueError(value)


def _parse_member(text: str, cls: type[enum.Enum]) -> enum.Enum:
    for member in cls:
        if text.lower() in (member.name.lower(), str(member.value).lower()):
            return member
    raise ValueError(text)


def _describe(expected: Any, name: str) -> str:
    for suffix, (text, _) in _UNITS.items():
        if name.endswith(suffix):
            return text
    if typing.get_origin(expected) in (typing.Union, types.UnionType):
        return _describe(typing.get_args(expected)[0], name)
    if typing.get_origin(expected) is Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(expected)))
    if isinstance(expected, type) and issubclass(expected, enum.Enum):
        return "one of " + ", ".join(repr(member.name.lower()) for member in expected)
    if typing.get_origin(expected) is tuple:
        return f"a list of {_describe(typing.get_args(expected)[0], name)}"
    if expected is bool:
        return "true or false"
    return (
        expected.__name__ if isinstance(expected, type) and not typing.get_args(expected) else str(expected)
    )
