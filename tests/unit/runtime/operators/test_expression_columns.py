"""Expressions over columns give what the generated loop gives for rows, and convert no other columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tidegate.arrow_rows import ArrowRows, RowForm
from tidegate.elements import Batch, Origin, RowKind
from tidegate.ids import OperatorUid, SplitId
from tidegate.row import Row
from tidegate.runtime.operators.codegen import Stage, compile_stages
from tidegate.runtime.operators.expression_columns import ExpressionColumns
from tidegate.runtime.operators.expressions import Branch, Expressions
from tidegate.runtime.operators.operator import Call
from tidegate.runtime.stream.tags import OutputTag

COUNT = 20
COLUMNS = {
    "id": list(range(COUNT)),
    "name": [f"n{number % 3}" if number % 4 else None for number in range(COUNT)],
    "tags": [[number, None] for number in range(COUNT)],
}
KINDS = [list(RowKind)[number % 4] for number in range(COUNT)]
NAMES = ("id", "name", "tags")


def batch(form: RowForm) -> Batch:
    origin = Origin(SplitId("a"), range(100, 100 + COUNT))
    return Batch(ArrowRows(pa.record_batch(COLUMNS), form), list(range(COUNT)), kinds=KINDS, origin=origin)


def by_loop(expressions: Expressions, form: RowForm) -> list[tuple[Any, ...]]:
    """What each branch emits for rows."""
    sides = [branch.tag for branch in expressions.branches if branch.tag is not None]
    stages = tuple(
        (tag, Stage(OperatorUid("side"), number + 1, None, outputs=(number + 1,)))
        for number, tag in enumerate(sides)
    )
    head = Stage(
        OperatorUid("calc"), 0, Call("expressions", expressions=expressions), outputs=(0,), sides=stages
    )
    given = batch(form)
    loop = compile_stages("expressions", head, timed=True, kinded=True)
    return [tuple(columns) for columns in loop.run(given.rows(), given.timestamps, None, given.kinds)]


def plain(values: Any) -> list[Any]:
    return [(type(value), value) for value in values]


CASES: list[tuple[RowForm, Expressions]] = [
    ("dict", Expressions((Branch(where='v["id"] % limit'),), names={"limit": 3})),
    ("dict", Expressions((Branch('v["id"] + t', where="t > 4"),))),
    ("dict", Expressions((Branch('{"n": v["name"], "twice": v["id"]}', where='v["name"] is not None'),))),
    ("dict", Expressions((Branch('{"n": v["name"], "n2": len(v["tags"])}'),))),
    ("dict", Expressions((Branch('(v["id"], v["id"])'),))),
    ("dict", Expressions((Branch('[each for each in v["tags"] if each != v["id"]]'),))),
    ("dict", Expressions((Branch("t"), Branch(where='v["id"] < 3', tag=OutputTag("few"))))),
    ("dict", Expressions((Branch(where="False"), Branch('v["name"]', tag=OutputTag("names"))))),
    ("tuple", Expressions((Branch("(name, id)", where="id % 2"),), NAMES)),
    ("tuple", Expressions((Branch("(v[2], v[0] + 1)", where="v[0] % 2"),))),
    ("row", Expressions((Branch('(v["id"], tags)', where="v[1]"),), NAMES)),
    ("row", Expressions((Branch(where='v["name"] == "n1"'),))),
]


@pytest.mark.parametrize(("form", "expressions"), CASES, ids=range(len(CASES)))
def test_columns_give_what_rows_give(form: RowForm, expressions: Expressions) -> None:
    given = batch(form)

    found = ExpressionColumns(expressions).computed(given)

    assert found is not None
    assert isinstance(given.values, ArrowRows)
    assert not given.values.converted
    expected = by_loop(expressions, form)
    assert [branch for branch, _ in found] == list(expressions.branches)
    for (_, part), (values, times, kinds) in zip(found, expected, strict=True):
        assert (part.timestamps or [], part.kinds or []) == (times, kinds)
        if part.origin is not None and part.timestamps is not None:
            assert list(part.origin.positions) == [100 + time for time in part.timestamps]
        rows = part.rows()
        if form == "row" and values and type(values[0]) is Row:
            values = [replaced.as_dict() for replaced in values]
            rows = [row.as_dict() for row in rows]
        assert plain(rows) == plain(values)


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("dict", ("v", None)),
        ("dict", ('v.get("id")', None)),
        ("dict", ("v[0]", None)),
        ("dict", ('v["nme"]', None)),
        ("dict", (None, '1 / (v["id"] - 7)')),
        ("dict", ('{**v["tags"]}', None)),
        ("tuple", ('v["id"]', None)),
        ("tuple", ("v[-1]", None)),
        ("tuple", ("v[3]", None)),
    ],
)
def test_what_columns_cannot_give_is_computed_from_rows(
    form: RowForm, texts: tuple[str | None, str | None]
) -> None:
    given = batch(form)

    assert ExpressionColumns(Expressions((Branch(*texts),))).computed(given) is None
    assert isinstance(given.values, ArrowRows)
    assert not given.values.converted


def test_names_of_columns_are_for_rows_of_as_many_columns_and_not_for_dictionaries() -> None:
    two = Expressions((Branch("id"),), ("id", "name"))
    three = replace(two, columns=NAMES)

    assert ExpressionColumns(two).computed(batch("tuple")) is None
    assert ExpressionColumns(three).computed(batch("dict")) is None
    assert ExpressionColumns(three).computed(batch("row")) is not None


@pytest.mark.parametrize(
    ("expressions", "kept"),
    [
        (CASES[0][1], True),
        (CASES[2][1], True),
        (CASES[4][1], True),
        (CASES[3][1], False),
        (CASES[1][1], False),
    ],
    ids=["filter", "fields", "fields of a tuple", "a computed field", "a number"],
)
def test_filters_and_lists_of_fields_stay_arrow(expressions: Expressions, kept: bool) -> None:
    found = ExpressionColumns(expressions).computed(batch("dict"))

    assert found is not None
    assert isinstance(found[0][1].values, ArrowRows) == kept
