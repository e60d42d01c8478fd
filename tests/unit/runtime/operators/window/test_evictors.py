"""What is removed from a window, by the numbers of the examples."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.common import Duration
from tidegate.datastream.window import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from tidegate.errors import ConfigError


def kept(evictor: Evictor, elements: list[TimestampedValue]) -> list[TimestampedValue]:
    context: Any = None
    return evictor.evict_before(elements, len(elements), None, context)


def values(*given: int) -> list[TimestampedValue]:
    return [TimestampedValue(value, 0) for value in given]


def test_a_delta_evictor_keeps_what_is_near_the_last_record() -> None:
    evictor = DeltaEvictor.of(5, lambda record, last: abs(record - last))

    assert kept(evictor, values(1, 4, 8, 10)) == values(8, 10)
    assert kept(evictor, values(5, 10)) == values(10)


def test_a_time_evictor_keeps_what_is_no_older_than_its_interval() -> None:
    elements = [TimestampedValue(None, time) for time in (100, 500, 1_000, 1_500)]

    assert [element.timestamp for element in kept(TimeEvictor.of(Duration.of_millis(1_000)), elements)] == [
        500,
        1_000,
        1_500,
    ]


def test_a_count_evictor_keeps_the_last_records() -> None:
    assert kept(CountEvictor.of(3), values(1, 2, 3, 4, 5)) == values(3, 4, 5)
    assert kept(CountEvictor.of(9), values(1, 2)) == values(1, 2)


def test_an_evictor_may_wait_until_the_function_has_seen_all() -> None:
    evictor, context = CountEvictor.of(1, do_evict_after=True), None

    assert evictor.evict_before(values(1, 2), 2, None, context) == values(1, 2)  # type: ignore[arg-type]  # not asked
    assert evictor.evict_after(values(1, 2), 2, None, context) == values(2)  # type: ignore[arg-type]  # not asked


def test_evictors_that_cannot_be_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="the size of a count window is 0; expected an integer of at least 1"
    ):
        CountEvictor.of(0)
    with pytest.raises(ConfigError, match="the interval of a time evictor is 5; expected a Duration"):
        TimeEvictor.of(5)  # type: ignore[arg-type]  # on purpose
