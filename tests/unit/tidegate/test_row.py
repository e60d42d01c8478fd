"""Rows by position and by name."""

from __future__ import annotations

import copy
import pickle

import pytest

from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, RecordError
from tidegate.row import Row, kinds_of, values_with_kinds


def test_fields_are_reached_by_position_name_and_attribute() -> None:
    row = Row(id=7, name="ada")

    assert (row[0], row["name"], row.name) == (7, "ada", "ada")
    assert list(row) == [7, "ada"]
    assert len(row) == 2
    assert row.as_dict() == {"id": 7, "name": "ada"}


def test_fields_are_changed_by_position_name_and_attribute() -> None:
    row = Row(id=7, name="ada", age=36)

    row[0] = 8
    row["name"] = "grace"
    row.age = 85

    assert row == Row(id=8, name="grace", age=85)


def test_a_positional_row_numbers_its_fields() -> None:
    assert Row(1, "a").as_dict() == {"f0": 1, "f1": "a"}
    assert Row(1, "a").names == ()


@pytest.mark.parametrize(
    "other",
    [Row(id=1, b=2), Row(1, 2), Row(a=1, b=3), Row.of([1, 2], ["a", "b"], RowKind.DELETE), (1, 2)],
    ids=["names", "positional", "values", "kind", "tuple"],
)
def test_rows_differ_in_names_values_and_kind(other: object) -> None:
    assert Row(a=1, b=2) != other
    assert Row(a=1, b=2) == Row(a=1, b=2)


def test_equal_rows_have_one_hash_and_meet_in_a_set() -> None:
    assert hash(Row(1, "a")) == hash(Row(1, "a"))
    assert {Row(a=1), Row(a=1), Row(a=2), Row(1)} == {Row(1), Row(a=2), Row(a=1)}
    with pytest.raises(TypeError, match="unhashable"):
        hash(Row([1]))


def test_a_row_is_sliced_for_reading_and_for_writing() -> None:
    row = Row(1, 2, 3)
    row[1:] = [4, 5]

    assert (row[:2], row[-1]) == ([1, 4], 5)


def test_a_row_of_names_is_a_template_of_rows() -> None:
    person = Row("name", "age")

    assert person("ada", 36) == Row(name="ada", age=36)
    assert "name" in person
    with pytest.raises(ConfigError, match=r"invalid row field names.*expected 3 different ones"):
        person("ada", 36, True)


def test_a_row_survives_pickle_and_copy_with_names_and_kind() -> None:
    row = Row.of([1, [2]], ["a", "b"], RowKind.UPDATE_AFTER)

    assert pickle.loads(pickle.dumps(row)) == row
    assert copy.deepcopy(row) == row
    assert copy.deepcopy(row)[1] is not row[1]


def test_a_row_contains_its_names_or_without_names_its_values() -> None:
    assert [name in Row(id=1, name="a") for name in ("id", 1, "other")] == [True, False, False]
    assert [value in Row(1, "a") for value in (1, "a", None)] == [True, True, False]


def test_a_kind_is_told_as_it_is_printed() -> None:
    assert [str(kind) for kind in RowKind] == [f"{kind}" for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_repr_shows_names_and_the_kind_of_a_change() -> None:
    row = Row(id=1)
    row.set_row_kind(RowKind.DELETE)

    assert repr(row) == "-DRow(id=1)"
    assert repr(Row(1, "a")) == "<Row(1, 'a')>"


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_names_that_do_not_fit_are_refused(names: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"invalid row field names; got \['a'.*expected 2 different ones"):
        Row(1, 2).set_field_names(names)


def test_positional_and_named_fields_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="positional or named fields; got both"):
        Row(1, b=2)


def test_a_field_that_is_not_there_is_named() -> None:
    row = Row(a=1)

    with pytest.raises(AttributeError, match="row has no field 'b'"):
        _ = row.b
    with pytest.raises(AttributeError, match="row has no field 'b'"):
        row.b = 2
    with pytest.raises(KeyError, match="row has no field 'b'"):
        _ = row["b"]


def test_a_row_is_made_of_a_kind_at_once() -> None:
    row = Row.of_kind(RowKind.DELETE, 1, "a")

    assert (row.get_row_kind(), list(row)) == (RowKind.DELETE, [1, "a"])
    assert Row.of_kind(RowKind.INSERT, key=1) == Row(key=1)


def test_rows_within_become_dicts_only_if_asked() -> None:
    row = Row(key=1, value=Row(n=2), rest=[Row(3), {"k": Row(m=4)}])

    assert row.as_dict()["value"] == Row(n=2)
    assert row.as_dict(recursive=True) == {"key": 1, "value": {"n": 2}, "rest": [{"f0": 3}, {"k": {"m": 4}}]}


def test_fields_are_picked_by_names_in_their_order() -> None:
    assert Row(a=1, b=2, c=3).get_fields_by_names(["c", "a"]) == [3, 1]
    assert Row(1, 2).get_fields_by_names(["c"]) == [1, 2]


def test_the_kinds_of_rows_are_a_column_where_one_is_a_change() -> None:
    changed = Row.of_kind(RowKind.UPDATE_AFTER, 1)

    assert kinds_of([Row(1), (2,), "a"]) is None
    assert kinds_of([Row(1), changed, "a"]) == [RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.INSERT]
    assert kinds_of([pickle.loads(pickle.dumps(changed))]) == [RowKind.UPDATE_AFTER]
    assert kinds_of([]) is None


def test_a_change_is_refused_where_its_record_does_not_say_it() -> None:
    changed = Row.of_kind(RowKind.DELETE, 1)

    values_with_kinds(Batch([changed, "a"]), "sink")
    values_with_kinds(Batch([changed, "a"], kinds=[RowKind.DELETE, RowKind.INSERT]), "sink")
    with pytest.raises(
        RecordError,
        match=r"^sink: the kind of a change would be lost; got 'a' as DELETE; expected inserts, or rows, which have their "
        r"kind; use a sink that accepts changes, or map changes to rows$",
    ):
        values_with_kinds(Batch([changed, "a"], kinds=[RowKind.DELETE, RowKind.DELETE]), "sink")


def test_sinks_that_write_values_get_rows_with_the_kinds_of_their_batch() -> None:
    row, deletion = Row(a=1), Row.of_kind(RowKind.DELETE, 2)
    batch = Batch([row, deletion, "a"], kinds=[RowKind.DELETE, RowKind.DELETE, RowKind.INSERT])

    values = values_with_kinds(batch, "sink")

    assert values == [Row.of_kind(RowKind.DELETE, a=1), deletion, "a"]
    assert values[1] is deletion
    assert row == Row(a=1)
    assert values_with_kinds(Batch([row]), "sink") == [row]
