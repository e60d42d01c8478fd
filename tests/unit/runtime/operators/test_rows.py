"""Records get the shape of their declared row type where they leave a step."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.common import Row, RowKind, Types
from tidegate.runtime.operators.rows import shaper

NAMED = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
PLAIN = Types.ROW([Types.INT(), Types.STRING()])
RED = Row(id=1, name="red")


@pytest.mark.parametrize(
    ("info", "value", "expected"),
    [
        (NAMED, (1, "red"), RED),
        (NAMED, [1, "red"], RED),
        (NAMED, {"name": "red", "id": 1}, RED),
        (NAMED, Row(1, "red"), RED),
        (NAMED, RED, RED),
        (NAMED, Row(name="red", id=1), RED),
        (NAMED, Row(1, None), Row(id=1, name=None)),
        (PLAIN, (1, "red"), Row(f0=1, f1="red")),
        (PLAIN, Row(1, "red"), Row(f0=1, f1="red")),
        (Types.TUPLE([Types.LONG(), NAMED]), (7, (1, "red")), (7, RED)),
        (Types.LIST(NAMED), [(1, "red"), [1, "red"]], [RED, RED]),
        (Types.MAP(Types.STRING(), NAMED), {"a": (1, "red")}, {"a": RED}),
        (Types.OPTIONAL(NAMED), (1, "red"), RED),
        (Types.OPTIONAL(NAMED), None, None),
        (Types.ROW([NAMED]), ((1, "red"),), Row(f0=RED)),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [1, "red"], (1, "red")),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), RED, (1, "red")),
        (Types.LIST(Types.TUPLE([Types.LONG()])), [[1], (2,)], [(1,), (2,)]),
    ],
    ids=repr,
)
def test_what_fits_becomes_a_row(info: Any, value: Any, expected: Any) -> None:
    shape = shaper(info)

    assert shape is not None
    assert shape(value) == expected
    assert shape(expected) == expected


@pytest.mark.parametrize(
    "value",
    [(1,), {"id": 1}, "ab", Row(number=1, name="red"), 5],
    ids=["short", "fields", "text", "names", "int"],
)
def test_what_does_not_fit_is_left_to_the_codec(value: Any) -> None:
    shape = shaper(NAMED)

    assert shape is not None
    assert shape(value) is value


def test_a_row_keeps_what_it_does_to_its_table() -> None:
    shape = shaper(NAMED)

    assert shape is not None
    assert shape(Row.of_kind(RowKind.DELETE, 1, "red")).get_row_kind() is RowKind.DELETE


@pytest.mark.parametrize("info", [None, Types.STRING(), Types.LIST(Types.INT())])
def test_a_type_without_rows_and_tuples_costs_nothing(info: Any) -> None:
    assert shaper(info) is None
