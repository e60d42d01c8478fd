"""Dictionaries of columns, and columns of dictionaries, whatever they are called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.dictionaries import columns, dictionaries

names = st.lists(st.text(st.characters(codec=None), max_size=4), min_size=1, max_size=5, unique=True)


@given(names.map(tuple), st.data())
def test_rows_and_columns_are_each_other(names: tuple[str, ...], data: st.DataObject) -> None:
    row = st.tuples(*(st.integers() for _ in names))
    rows: list[dict[str, Any]] = [
        dict(zip(names, each, strict=True)) for each in data.draw(st.lists(row, max_size=3))
    ]
    turned = [dict(reversed(each.items())) for each in rows]

    found = columns(names)(turned)

    assert found == [[each[name] for each in rows] for name in names]
    assert [list(each.items()) for each in dictionaries(names)(found)] == [
        list(each.items()) for each in rows
    ]


def test_columns_that_differ_in_length_and_rows_that_lack_a_name_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        dictionaries(("a", "b"))([[1, 2], [3]])
    with pytest.raises(KeyError, match="b"):
        columns(("a", "b"))([{"a": 1}])
