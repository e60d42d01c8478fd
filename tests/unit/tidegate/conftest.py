"""Sameness as the round-trip law means it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidegate.row import Row


@pytest.fixture(scope="session")
def same() -> Callable[[Any, Any], bool]:
    """Whether two values are equal and of the same types all the way down; NaN is the same as NaN."""
    return _same


def _same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, dict):
        return _all_same(list(left.items()), list(right.items()))
    if isinstance(left, set | frozenset):
        return _all_same(sorted(left, key=_order), sorted(right, key=_order))
    if isinstance(left, Row):
        heads = (left.names, left.get_row_kind()), (right.names, right.get_row_kind())
        return heads[0] == heads[1] and _all_same(list(left), list(right))
    if isinstance(left, list | tuple):
        return _all_same(left, right)
    if isinstance(left, msgspec.Struct):
        return _all_same(msgspec.structs.astuple(left), msgspec.structs.astuple(right))
    if dataclasses.is_dataclass(left):
        names = [field.name for field in dataclasses.fields(left)]
        return all(_same(getattr(left, name), getattr(right, name)) for name in names)
    return repr(left) == repr(right) or bool(left == right)


def _all_same(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(_same, left, right))


def _order(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"
