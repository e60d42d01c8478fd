"""What a clause of the kit says when records are lost or doubled."""

from __future__ import annotations

import pytest

from tidegate.testing.records import same


def test_records_that_are_lost_doubled_or_from_elsewhere_are_named_with_when_it_was_seen() -> None:
    with pytest.raises(AssertionError) as failure:
        same(["a", "b", "b", "x"], ["a", "b", "c"], "killed before step 3 of 9")

    assert str(failure.value).splitlines()[0] == (
        "killed before step 3 of 9: lost: str 'c' (seen 0 times, expected 1); "
        "doubled: str 'b' (seen 2 times, expected 1); never written: str 'x' (seen 1 times, expected 0)"
    )


def test_a_long_failure_names_some_records_and_counts_the_rest() -> None:
    with pytest.raises(AssertionError, match=r"in the end: lost: .* and 7 records more"):
        same([], [f"record {number:02}" for number in range(12)])


def test_a_record_of_another_type_is_not_the_same() -> None:
    with pytest.raises(AssertionError, match=r"lost: int 1 .*never written: bool True"):
        same([True], [1])
