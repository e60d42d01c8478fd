"""Changelog modes are sets of row kinds that make sense together."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidegate.changelog import ChangelogMode
from tidegate.elements import RowKind
from tidegate.errors import ConfigError

INSERT, BEFORE, AFTER, DELETE = RowKind


@st.composite
def modes(draw: st.DrawFn) -> ChangelogMode:
    kinds = draw(st.frozensets(st.sampled_from(RowKind)))
    kinds = kinds | {AFTER} if BEFORE in kinds else kinds
    return ChangelogMode(kinds, DELETE in kinds and draw(st.booleans()))


@pytest.mark.parametrize(
    ("mode", "text", "short"),
    [
        (ChangelogMode.insert_only(), "[INSERT]", "I"),
        (ChangelogMode.upsert(), "[INSERT, UPDATE_AFTER, DELETE]", "I,UA,D"),
        (ChangelogMode.all(), "[INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]", "I,UB,UA,D"),
        (ChangelogMode.retract(), "[INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]", "I,UB,UA,D"),
        (ChangelogMode.of([DELETE, INSERT]), "[INSERT, DELETE]", "I,D"),
    ],
    ids=["insert-only", "upsert", "all", "retract", "of"],
)
def test_a_mode_is_written_in_the_order_of_kinds(mode: ChangelogMode, text: str, short: str) -> None:
    assert (str(mode), mode.short) == (text, short)


def test_a_mode_knows_its_kinds() -> None:
    upsert = ChangelogMode.upsert()

    assert [upsert.contains(kind) for kind in RowKind] == [True, False, True, True]
    assert ChangelogMode.insert_only().contains_only(INSERT)
    assert not upsert.contains_only(INSERT)
    assert [mode.updates_by_key for mode in (ChangelogMode.insert_only(), upsert, ChangelogMode.all())] == [
        False,
        True,
        False,
    ]


@given(one=modes(), other=modes())
def test_union_and_intersection_are_modes_and_bounds(one: ChangelogMode, other: ChangelogMode) -> None:
    assert one & other <= one <= one | other
    assert one & other <= other <= one | other
    assert (one <= other) == (one | other == other)
    assert one - other == one.kinds - (one & other).kinds


def test_deletes_by_key_do_not_fit_where_whole_rows_are_wanted() -> None:
    keys, whole = ChangelogMode.upsert(key_only_deletes=True), ChangelogMode.upsert()

    assert whole <= keys
    assert not keys <= whole


@pytest.mark.parametrize(
    ("kinds", "by_key", "message"),
    [
        (
            [INSERT, BEFORE],
            False,
            r"changelog mode \[INSERT, UPDATE_BEFORE\] has UPDATE_BEFORE alone; expected UPDATE_AFTER",
        ),
        ([INSERT], True, r"\[INSERT\] has deletes by key without DELETE"),
    ],
    ids=["update before", "delete"],
)
def test_kinds_that_make_no_changelog_are_refused(kinds: list[RowKind], by_key: bool, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ChangelogMode(frozenset(kinds), by_key)
