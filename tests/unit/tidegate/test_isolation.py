"""What can change is copied, what cannot is not."""

from __future__ import annotations

import datetime
import decimal
import enum
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from tidegate.isolation import is_immutable, isolate
from tidegate.row import Row


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Frozen:
    inner: Any


@dataclass
class Open:
    inner: Any


class FrozenStruct(msgspec.Struct, frozen=True):
    inner: Any


class OpenStruct(msgspec.Struct):
    inner: Any


class Pair(NamedTuple):
    left: Any
    right: Any


class Loose(namedtuple("Loose", ["a"])):  # a subclass with a __dict__ is the point
    pass


@pytest.mark.parametrize(
    "value",
    [1, "a", b"a", 1.5, True, None, 2j, decimal.Decimal(1), datetime.date(2026, 1, 1), Colour.RED, (), (1, ("a",)),
     frozenset({1}), Frozen(1), Frozen(Frozen("a")), FrozenStruct((1,)), Pair(1, "a")],
    ids=repr,
)  # fmt: skip
def test_what_nobody_can_change_is_handed_on_itself(value: Any) -> None:
    assert is_immutable(value)
    assert isolate(value) is value


@pytest.mark.parametrize(
    "value",
    [[1], [[1]], {"a": 1}, {"a": [1]}, {1}, bytearray(b"a"), ([1],), Frozen([1]), FrozenStruct([1]), Open(1),
     OpenStruct(1), Pair(1, [2]), Loose(1), Row(1), [Open(1)], {Frozen(1): Open(1)}],
    ids=repr,
)  # fmt: skip
def test_what_can_change_is_copied_all_the_way_down(value: Any) -> None:
    found = isolate(value)

    assert not is_immutable(value)
    assert found is not value
    assert (type(found), found) == (type(value), value)


def test_a_change_to_the_original_does_not_reach_the_copy() -> None:
    inner = [1]
    values: list[Any] = [[inner], {"a": inner}, (inner,), Frozen(inner), OpenStruct(inner), Row(inner)]

    copies = [isolate(value) for value in values]
    inner.append(2)

    assert copies == [[[1]], {"a": [1]}, ([1],), Frozen([1]), OpenStruct([1]), Row([1])]


def test_a_value_that_occurs_twice_occurs_twice_in_the_copy() -> None:
    inner: list[int] = []

    found = isolate([inner, inner])

    assert found[0] is found[1] is not inner
