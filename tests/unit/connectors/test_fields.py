"""Rows made field by field."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.connectors.blackhole import BlackHoleSink
from tidegate.connectors.generator import (
    Ascending,
    DataGenSource,
    OneOf,
    RandomFloat,
    RandomInt,
    RandomText,
)
from tidegate.elements import Batch
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId
from tidegate.testing.source import SourceRig, SourceTarget
from tidegate.twophase.spi import SinkWriter

EXAMPLE: dict[str, Any] = {
    "f0": Ascending(1, 1_000),
    "f1": RandomInt(1, 1_000),
    "f2": RandomText(10),
    "f3": RandomFloat(),
}


def test_every_field_has_values_of_its_kind() -> None:
    rows = [DataGenSource({**EXAMPLE, "f4": OneOf(("a", "b"))}).function(number) for number in range(1_000)]

    assert [row.f0 for row in rows] == list(range(1, 1_001))
    assert all(1 <= row.f1 <= 1_000 for row in rows)
    assert len({row.f1 for row in rows}) > 500
    assert {len(row.f2) for row in rows} == {10}
    assert len({row.f2 for row in rows}) == 1_000
    assert all(0 <= row.f3 < 1 for row in rows)
    assert 0.45 < sum(row.f3 for row in rows) / 1_000 < 0.55
    assert {row.f4 for row in rows} == {"a", "b"}


def test_a_long_text_has_no_repeating_part() -> None:
    (text,) = DataGenSource({"text": RandomText(64)}, count=1).function(0)

    assert len({text[at : at + 16] for at in range(0, 64, 16)}) == 4


def test_random_fields_of_a_row_differ_from_each_other() -> None:
    row = DataGenSource({"a": RandomText(10), "b": RandomText(10)}, count=1).function(0)

    assert row.a != row.b


def test_rows_end_with_the_shortest_ascending_field() -> None:
    assert DataGenSource({"a": Ascending(1, 9), "b": Ascending(5, 7)}).count == 3
    assert DataGenSource({"a": Ascending(1, 9)}, count=4).count == 4
    assert not DataGenSource({"a": RandomInt(1, 2)}).bounded


@pytest.mark.spec("003/EX-33", "003/TC-39", "003/TC-40")
def test_five_rows_a_second_take_two_hundred_seconds_for_a_thousand() -> None:
    clock = ManualClock()
    source = DataGenSource(EXAMPLE, rows_per_second=5, splits=1)

    rows = SourceRig(SourceTarget(source, (), patience=10_000, clock=clock)).read()

    assert [row.f0 for row in rows] == list(range(1, 1_001))
    assert clock.monotonic() == pytest.approx(200, abs=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DataGenSource({}), "data generator has no fields; expected one or more"),
        (
            lambda: DataGenSource({"a": Ascending(1, 3)}, count=4),
            "4 rows of an ascending field with 3 values",
        ),
        (lambda: Ascending(2, 1), r"Ascending\(start=2, end=1\) has no values"),
        (lambda: RandomInt(2, 1), r"RandomInt\(low=2, high=1\) has no values"),
        (lambda: RandomFloat(2, 1), "has no values"),
        (lambda: RandomText(0), "has no values"),
        (lambda: OneOf(()), "has no values; expected the upper end not below the lower one"),
    ],
    ids=["no field", "too many rows", "ascending", "integers", "numbers", "text", "one of"],
)
def test_what_makes_no_sense_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_a_black_hole_keeps_nothing(writer_context: Any) -> None:
    writer: SinkWriter = BlackHoleSink().open_writer(writer_context())
    writer.write(Batch([1, 2]))

    assert writer.prepare(CheckpointId(1)) is None
