"""Values of a batch as Arrow columns."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from tidegate.arrow_rows import ArrowRows, RowForm
from tidegate.elements import Batch, Origin, RowKind, concat
from tidegate.ids import SplitId
from tidegate.row import Row

COLUMNS = {"id": [1, 2, 3], "name": ["a", None, "c"]}


def rows(form: RowForm = "dict", **columns: list[Any]) -> ArrowRows:
    return ArrowRows(pa.record_batch(columns or COLUMNS), form)


@pytest.mark.parametrize(
    ("form", "first"),
    [("dict", {"id": 1, "name": "a"}), ("tuple", (1, "a")), ("row", Row(id=1, name="a"))],
)
def test_rows_are_made_once_in_one_of_three_forms(form: RowForm, first: Any) -> None:
    found = rows(form)

    assert not found.converted
    assert (found[0], type(found[0]), len(found)) == (first, type(first), 3)
    assert found.converted
    assert found.rows() is found.rows()
    assert [*found] == found.rows()
    assert found == found.rows()


def test_slices_and_selections_stay_arrow() -> None:
    found = rows()
    parts = [
        found[1:],
        found[::2],
        found.select([2, 0, 2]),
        found[5:],
        found.project(["name"], ["n"], "tuple"),
    ]

    assert not any(part.converted for part in [found, *parts])
    assert [part.rows() for part in parts] == [
        [{"id": 2, "name": None}, {"id": 3, "name": "c"}],
        [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}],
        [{"id": 3, "name": "c"}, {"id": 1, "name": "a"}, {"id": 3, "name": "c"}],
        [],
        [("a",), (None,), ("c",)],
    ]


def test_a_holder_of_the_same_columns_makes_rows_of_its_own() -> None:
    first = rows()
    second = first.unshared()
    first[0]["id"] = 100

    assert second[0] == {"id": 1, "name": "a"}


@pytest.mark.parametrize(
    ("form", "field", "values"),
    [
        ("dict", "id", [1, 2, 3]),
        ("row", "id", [1, 2, 3]),
        ("row", 1, ["a", None, "c"]),
        ("tuple", 0, [1, 2, 3]),
    ],
)
def test_a_field_is_read_without_rows(form: RowForm, field: str | int, values: list[Any]) -> None:
    found = rows(form)

    assert found.column(field) == values
    assert not found.converted


@pytest.mark.parametrize(
    ("form", "field"), [("dict", 0), ("tuple", "id"), ("dict", "nme"), ("row", 2), ("row", -1)]
)
def test_a_field_that_rows_do_not_have_is_not_read(form: RowForm, field: str | int) -> None:
    with pytest.raises(KeyError):
        rows(form).column(field)


def test_they_are_the_same_behind_bytes_and_a_pickle() -> None:
    for form in ("dict", "tuple", "row"):
        found = rows(form)[1:]
        for same in (ArrowRows.decode(found.encoded(), form), pickle.loads(pickle.dumps(found))):
            assert (same.form, same.rows()) == (form, found.rows())


def test_batches_of_the_same_columns_are_joined_and_others_stand_alone() -> None:
    batches = [
        Batch(rows()),
        Batch(rows()[:1]),
        Batch([5]),
        Batch(rows("tuple")),
        Batch(rows(id=[7])),
        Batch([6], [0]),
    ]

    found = list(concat(batches))

    assert [type(batch.values) for batch in found] == [ArrowRows, list, ArrowRows, ArrowRows, list]
    assert [len(batch) for batch in found] == [4, 1, 3, 1, 1]
    assert found[0].rows() == rows().rows() + rows()[:1].rows()


def test_a_batch_becomes_rows_with_all_it_has() -> None:
    batch = Batch(rows(), [1, 2, 3], kinds=[RowKind.DELETE] * 3, origin=Origin(SplitId("a"), [4, 5, 6]))

    found = batch.in_rows()

    assert (found.values, found.timestamps, found.kinds) == (rows().rows(), batch.timestamps, batch.kinds)
    assert (type(found.values), found.origin) == (list, batch.origin)
    assert found.in_rows() is found
