"""Exact types: no subclass, no value that merely equals."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tidegate.checks import batch_checker, checker, exact_class, locate, shorten
from tidegate.row import Row
from tidegate.types import Kind, TypeInformation, Types

BERLIN = datetime.timezone(datetime.timedelta(hours=2))
NOON = datetime.datetime(2026, 1, 1, 12)


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


@dataclass
class User:
    name: str
    tags: list[str]


class Child(User):
    pass


class Pair(NamedTuple):
    left: int
    right: int | None


USER, PAIR, NUMBER = Types.of(User), Types.of(Pair), Types.of(Number)
INTS = Types.LIST(Types.LONG())
ANY = TypeInformation(Kind.ANY)

CASES: list[tuple[TypeInformation, list[Any], list[Any]]] = [
    (Types.BOOLEAN(), [True, False], [1, 0, None]),
    (Types.BYTE(), [-128, 127], [-129, 128, True]),
    (Types.SHORT(), [-(2**15), 2**15 - 1], [-(2**15) - 1, 2**15]),
    (Types.INT(), [-(2**31), 2**31 - 1], [-(2**31) - 1, 2**31, True, 1.0, Number.ONE]),
    (Types.LONG(), [0, -(2**63)], [True, 1.0, "1", None, Number.ONE]),
    (Types.BIG_INT(), [2**100], [True, 1.0]),
    (Types.FLOAT(), [1.0, float("nan")], [1, True, "1"]),
    (Types.DOUBLE(), [1.0, float("inf")], [1, True, decimal.Decimal(1)]),
    (Types.BIG_DEC(), [decimal.Decimal("1.10"), decimal.Decimal("NaN")], [decimal.Decimal("sNaN"), 1.1]),
    (Types.STRING(), ["", "a"], [Text("a"), b"a", None]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a"], [bytearray(b"a"), "a"]),
    (Types.SQL_DATE(), [NOON.date()], [NOON, "2026-01-01"]),
    (Types.SQL_TIME(), [NOON.time()], [NOON.time().replace(tzinfo=BERLIN), NOON.time().replace(fold=1)]),
    (Types.SQL_TIMESTAMP(), [NOON], [NOON.replace(tzinfo=datetime.UTC), NOON.replace(fold=1), NOON.date()]),
    (Types.INSTANT(), [NOON.replace(tzinfo=datetime.UTC)], [NOON, NOON.replace(tzinfo=BERLIN)]),
    (
        Types.of(datetime.datetime),
        [NOON, NOON.replace(tzinfo=datetime.UTC)],
        [NOON.replace(tzinfo=BERLIN), NOON.replace(fold=1)],
    ),
    (Types.of(datetime.timedelta), [datetime.timedelta(1)], [1]),
    (Types.of(uuid.UUID), [uuid.UUID(int=1)], [str(uuid.UUID(int=1))]),
    (NUMBER, [Number.ONE], [1]),
    (ANY, [1, None, object()], []),
    (Types.PICKLED_BYTE_ARRAY(), [1, None, object()], []),
    (Types.OPTIONAL(Types.LONG()), [None, 1], [True, "a"]),
    (INTS, [[], [1, 2]], [(1,), [1, True], [None], collections.UserList([1])]),
    (Types.LIST(ANY), [[], [1, "a"]], [(1,)]),
    (Types.LIST(INTS), [[[1]], []], [[[True]], [1]]),
    (Types.of(set[int]), [set(), {1}], [frozenset({1}), {1.5}]),
    (Types.of(frozenset[int]), [frozenset({1})], [{1}, frozenset({"a"})]),
    (Types.of(dict[str, int]), [{}, {"a": 1}], [{"a": True}, {1: 1}, collections.OrderedDict(a=1)]),
    (Types.of(dict[str, list[int]]), [{"a": [1]}], [{"a": [True]}, {"a": 1}]),
    (Types.of(tuple[int, str]), [(1, "a")], [(True, "a"), [1, "a"], (1,), (1, "a", 2), Pair(1, 2)]),
    (Types.of(tuple[()]), [()], [(1,), []]),
    (Types.of(tuple[int, ...]), [(), (1, 2)], [(1, "a"), [1]]),
    (USER, [User("a", []), User("a", ["b"])], [Child("a", []), User(1, []), User("a", [1])]),  # type: ignore[arg-type, list-item]  # wrong on purpose
    (PAIR, [Pair(1, None), Pair(1, 2)], [(1, 2), Pair(1, True), Pair(None, 1)]),  # type: ignore[arg-type]
    (Types.ROW([Types.LONG()]), [Row(1), Row(f0=1), Row(None)], [Row(a=1), Row(True), Row(1, 2), (1,)]),
    (Types.ROW_NAMED(["a"], [Types.LONG()]), [Row(a=1), Row(a=None)], [Row(1), Row(b=1), Row(a=True)]),
    (Types.OBJECT_ARRAY(Types.LONG()), [[1, None], []], [[True], None]),
    (Types.BASIC_ARRAY(Types.LONG()), [[1, None], []], [[True], None]),
]


IDS = [f"{number} {case[0]}" for number, case in enumerate(CASES)]


@pytest.mark.parametrize(("info", "good", "bad"), CASES, ids=IDS)
def test_exactly_the_declared_type_passes(info: TypeInformation, good: list[Any], bad: list[Any]) -> None:
    check, check_batch = checker(info), batch_checker(info)

    assert [check(value) for value in good] == [True] * len(good)
    assert [check(value) for value in bad] == [False] * len(bad)
    assert check_batch(good) is True
    assert check_batch([]) is True
    assert [check_batch([*good, value]) for value in bad] == [False] * len(bad)


@pytest.mark.parametrize(("info", "good", "bad"), CASES, ids=IDS)
def test_a_check_means_the_same_inside_a_tuple(
    info: TypeInformation, good: list[Any], bad: list[Any]
) -> None:
    check = checker(Types.TUPLE([Types.LONG(), info]))

    assert all(check((1, value)) for value in good)
    assert not any(check((1, value)) for value in bad)


@pytest.mark.parametrize(
    ("info", "value", "text"),
    [
        (Types.LONG(), True, "got bool True; expected long"),
        (Types.of(tuple[int, str]), (True, "a"), "field [0]: got bool True; expected long"),
        (Types.of(tuple[int, str]), (1,), "got tuple (1,); expected tuple<long, string>"),
        (USER, User("a", ["b", 1]), "field tags[1]: got int 1; expected string"),  # type: ignore[list-item]
        (Types.LIST(USER), [User("a", []), Child("b", [])], "field [1]: got Child"),
        (Types.of(dict[str, int]), {"a": 1.0}, "field ['a']: got float 1.0; expected long"),
        (Types.of(dict[str, int]), {1: 1}, "field {key 1}: got int 1; expected string"),
        (Types.ROW_NAMED(["a"], [INTS]), Row(a=[1.5]), "field a[0]: got float 1.5; expected long"),
        (Types.ROW([INTS]), Row([1.5]), "field f0[0]: got float 1.5; expected long"),
        (PAIR, Pair(1, False), "field right: got bool False; expected long"),
        (Types.of(frozenset[int]), frozenset({"a"}), "field [0]: got str 'a'; expected long"),
        (Types.INSTANT(), NOON, "expected instant; convert it with .astimezone(timezone.utc)"),
        (Types.STRING(), b"x" * 100, "got bytes b'" + "x" * 75 + "...; expected string"),
    ],
    ids=str,
)
def test_a_refusal_names_the_path_to_the_innermost_difference(
    info: TypeInformation, value: Any, text: str
) -> None:
    assert text in locate(info, value)


def test_checkers_are_made_once_per_type() -> None:
    assert checker(Types.of(tuple[int, str])) is checker(Types.TUPLE([Types.LONG(), Types.STRING()]))


def test_exact_class_and_shorten_serve_messages() -> None:
    assert exact_class(Kind.LONG) is int
    assert shorten("x" * 78) == repr("x" * 78)
    assert len(shorten("x" * 79)) == 80
