"""Copies of mutable values, so that a batch keeps the values it was emitted with.

Example:
    >>> name, tags = "ada", ["a"]
    >>> isolate(name) is name, isolate(tags) is tags, isolate(tags) == tags
    (True, False, True)
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import types
import uuid
from typing import Any, Final

import msgspec

from tidegate.types import record_fields

__all__ = ["ATOMS", "is_immutable", "isolate"]

ATOMS: Final = frozenset(
    {
        int,
        str,
        bytes,
        float,
        bool,
        types.NoneType,
        complex,
        decimal.Decimal,
        fractions.Fraction,
        uuid.UUID,
        datetime.date,
        datetime.time,
        datetime.datetime,
        datetime.timedelta,
    }
)
"""Types without parts that could change."""


def isolate(value: Any) -> Any:
    """The value itself if it is immutable, otherwise a copy that shares no mutable part with it."""
    kind = type(value)
    if kind in ATOMS or is_immutable(value):
        return value
    if kind is list and all(map(is_immutable, value)):
        return value.copy()
    if kind is dict and all(map(is_immutable, value.values())) and all(map(is_immutable, value)):
        return value.copy()
    return copy.deepcopy(value)


def is_immutable(value: Any) -> bool:
    """Whether nothing inside the value can change: atoms, enum members, and tuples and frozen records of them."""
    kind: Any = type(value)
    if kind in ATOMS:
        return True
    if kind is tuple or kind is frozenset:
        for part in value:  # noqa: SIM110  # a plain loop: most tuples are short, and a generator costs more than they do
            if type(part) not in ATOMS and not is_immutable(part):
                return False
        return True
    names = _frozen_fields(kind)
    return names is not None and all(is_immutable(getattr(value, name)) for name in names)


@functools.lru_cache(maxsize=4_096)
def _frozen_fields(cls: type[Any]) -> tuple[str, ...] | None:
    """The fields through which an instance could still change; None if it can change by itself."""
    if issubclass(cls, enum.Enum):
        return ()
    if issubclass(cls, msgspec.Struct):
        return record_fields(cls) if cls.__struct_config__.frozen else None
    if dataclasses.is_dataclass(cls):
        return record_fields(cls) if cls.__dataclass_params__.frozen else None  # type: ignore[attr-defined]  # no stub
    if issubclass(cls, tuple) and not cls.__dictoffset__:
        return record_fields(cls)
    return None
