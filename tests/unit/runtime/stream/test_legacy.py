"""Deprecated operations work, warn, and say what to use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.collection import CollectionSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.operators.operator import Piece
from tidegate.runtime.operators.stamp import Stamp
from tidegate.runtime.stream.legacy import (
    AscendingTimestampExtractor,
    AssignerWithPeriodicWatermarks,
    AssignerWithPunctuatedWatermarks,
    BoundedOutOfOrdernessTimestampExtractor,
    strategy_of,
)

MINUTE, HOUR = 60_000, 3_600_000
Record = tuple[int, bool]


def named(name: str, number: int) -> tuple[str, int]:
    return name, number


class Delayed(BoundedOutOfOrdernessTimestampExtractor):
    def extract_timestamp(self, element: int, previous_element_timestamp: int | None = None) -> int:
        return element


class Ascending(AscendingTimestampExtractor):
    def extract_ascending_timestamp(self, element: int) -> int:
        return element


class Marked(AssignerWithPunctuatedWatermarks):
    def extract_timestamp(self, element: Record, previous_element_timestamp: int) -> int:
        return element[0]

    def check_and_get_next_watermark(self, last_element: Record, extracted_timestamp: int) -> int | None:
        return extracted_timestamp if last_element[1] else None


class Wall(AssignerWithPeriodicWatermarks):
    """Time goes on by one each time it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def extract_timestamp(self, element: int, previous_element_timestamp: int) -> int:
        return element

    def get_current_watermark(self) -> int:
        self.asked += 1
        return self.asked


class Probe(KeyedProcessFunction):
    """Tells, for each record, how far time was when it came."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, int]]:
        yield value, ctx.timer_service().current_watermark()


def marks(assigner: Any, *values: Any) -> list[int | None]:
    """The watermark that goes out behind each value."""
    operator = Stamp(strategy_of(assigner), ManualClock())
    result = []
    for value in values:
        operator.calls[0].function(value, None)
        result.append(operator.own_watermark())
    return result


def behind(env: StreamExecutionEnvironment, assigner: Any, values: list[Any]) -> list[int]:
    """How far time is behind an exchange when each value but the first comes: one batch per value."""
    stream = env.from_source(CollectionSource(values)).set_parallelism(1)
    with pytest.warns(DeprecationWarning, match="use WatermarkStrategy"):
        timed = stream.assign_timestamps_and_watermarks(assigner).set_parallelism(1)
    told = timed.key_by(lambda value: 0).process(Probe()).set_parallelism(1)
    return [mark for _, mark in sorted(told.execute_and_collect(), key=lambda each: values.index(each[0]))]


def test_the_older_extractor_takes_off_the_delay_and_nothing_more() -> None:
    assert marks(Delayed(Time.seconds(10)), 20_000, 15_000, 30_000) == [10_000, None, 20_000]


def test_ascending_timestamps_are_followed_by_a_millisecond_and_must_ascend() -> None:
    assert marks(Ascending(), 5, 5, 9) == [4, None, 8]
    with pytest.raises(RecordError, match="record 3 has timestamp 3 after one with 9; expected ascending"):
        marks(Ascending(), 9, 3)


def test_a_marked_record_moves_time_only_forwards() -> None:
    assert marks(Marked(), (5, True), (3, True), (9, False), (8, True)) == [5, None, None, 8]


@pytest.mark.spec("002/AX-30")
@pytest.mark.spec("004/WMK-008", "003/TM-07")
def test_punctuated_watermarks_stand_right_behind_their_records(
    anywhere: StreamExecutionEnvironment,
) -> None:
    records = [(5, True), (3, True), (9, False), (8, True), (10, False)]

    seen = behind(anywhere, Marked(), records)

    # Before the first record there is none; then 5, nothing for 3, nothing for the unmarked 9, then 8.
    assert seen[1:] == [5, 5, 5, 8]


@pytest.mark.spec("004/WMK-007", "003/TM-06")
def test_a_periodic_assigner_is_asked_by_the_clock_when_nothing_comes() -> None:
    clock = ManualClock(now_ms=0)
    operator = Stamp(strategy_of(Wall()), clock)

    assert (operator.own_watermark(), operator.next_processing_time()) == (1, 200)
    clock.advance(200)
    operator.processing_time(clock.now_ms(), Piece())
    assert (operator.own_watermark(), operator.next_processing_time()) == (2, 400)


def test_each_subtask_works_with_an_assigner_of_its_own() -> None:
    shared = Delayed(Time.seconds(0))
    strategy = strategy_of(shared)
    first, second = (Stamp(strategy, ManualClock()) for _ in range(2))

    first.calls[0].function(7, None)

    assert (first.own_watermark(), second.own_watermark(), shared.get_current_watermark()) == (7, None, None)


def test_an_older_assigner_works_in_a_program(anywhere: StreamExecutionEnvironment) -> None:
    class Fires(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp())

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
            yield timestamp

    stream = anywhere.from_collection([30, 10, 20])
    with pytest.warns(DeprecationWarning, match="Delayed is deprecated; use WatermarkStrategy"):
        timed = stream.assign_timestamps_and_watermarks(Delayed(Time.milliseconds(5)))

    assert sorted(timed.key_by(lambda v: 0).process(Fires()).execute_and_collect()) == [10, 20, 30]


def test_fold_starts_each_key_with_the_initial_value(anywhere: StreamExecutionEnvironment) -> None:
    letters = anywhere.from_collection([("a", 1), ("b", 5), ("a", 2), ("a", 3)]).set_parallelism(1)

    with pytest.warns(DeprecationWarning, match=r"fold\(\.\.\.\) is deprecated; use reduce"):
        folded = letters.key_by(lambda v: v[0]).fold("start", lambda text, v: f"{text}-{v[1]}")

    assert sorted(folded.execute_and_collect()) == ["start-1", "start-1-2", "start-1-2-3", "start-5"]


def test_fold_never_shares_a_mutable_initial_value(anywhere: StreamExecutionEnvironment) -> None:
    def append(numbers: list[int], value: tuple[str, int]) -> list[int]:
        numbers.append(value[1])
        return numbers

    letters = anywhere.from_collection([("a", 1), ("b", 5), ("a", 2)]).set_parallelism(1)
    with pytest.warns(DeprecationWarning, match="fold"):
        folded = letters.key_by(lambda v: v[0]).fold([], append)

    assert sorted(folded.execute_and_collect()) == [[1], [1, 2], [5]]


@pytest.mark.spec("002/AX-05")
def test_a_split_stream_is_selected_by_the_names_its_records_carry(
    anywhere: StreamExecutionEnvironment,
) -> None:
    with pytest.warns(DeprecationWarning, match=r"split\(\.\.\.\) is deprecated; use side outputs"):
        parts = anywhere.from_collection([1, 2, 3, 4, -3]).split(lambda n: ["even" if n % 2 == 0 else "odd"])

    chosen = [parts.select("even"), parts.select("odd"), parts.select("even", "odd")]
    first, *rest = [part.map(partial(named, name)) for name, part in zip("eob", chosen, strict=True)]

    results = sorted(first.union(*rest).execute_and_collect())
    by_name = {name: [n for each, n in results if each == name and n > 0] for name in "eob"}
    assert by_name == {"e": [2, 4], "o": [1, 3], "b": [1, 2, 3, 4]}
    assert ("o", -3) in results


def test_a_selector_that_is_no_function_is_refused() -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])

    with (
        pytest.warns(DeprecationWarning, match="split"),
        pytest.raises(ConfigError, match="split takes a function; got list"),
    ):
        stream.split(["even"])
    with (
        pytest.warns(DeprecationWarning, match="fold"),
        pytest.raises(ConfigError, match="fold takes a function; got int"),
    ):
        stream.key_by(abs).fold(0, 1)


class Second(BoundedOutOfOrdernessTimestampExtractor):
    def extract_timestamp(
        self, element: tuple[int, int], previous_element_timestamp: int | None = None
    ) -> int:
        return element[1]


class First(AssignerWithPunctuatedWatermarks):
    """Moves time at every record, so that every record is a batch."""

    def extract_timestamp(self, element: tuple[int, int], previous_element_timestamp: int) -> int:
        return element[0]

    def check_and_get_next_watermark(self, last_element: Any, extracted_timestamp: int) -> int:
        return extracted_timestamp


def delayed_by(env: StreamExecutionEnvironment, delay_s: int, timestamps: list[int], how: str) -> list[int]:
    """How far time is after each of the timestamps."""
    records = [*enumerate(timestamps, 1), (len(timestamps) + 1, 0)]
    assigner = Second(Time.seconds(delay_s))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Time.seconds(delay_s))
    stream = env.from_source(CollectionSource(records)).set_parallelism(1)
    with pytest.warns(DeprecationWarning, match="First"):
        single = stream.assign_timestamps_and_watermarks(First()).set_parallelism(1)
    if how == "legacy":
        with pytest.warns(DeprecationWarning, match="Second"):
            timed = single.assign_timestamps_and_watermarks(assigner).set_parallelism(1)
    else:
        assigned = strategy.with_timestamp_assigner(lambda value, timestamp: value[1])
        timed = single.assign_timestamps_and_watermarks(assigned).set_parallelism(1)
    told = timed.key_by(lambda value: 0).process(Probe()).set_parallelism(1)
    return [mark for _, mark in sorted(told.execute_and_collect())][1:]


LESS = pytest.mark.parametrize(("how", "less"), [("legacy", 0), ("strategy", 1)], ids=["legacy", "strategy"])


@LESS
@pytest.mark.spec("002/AX-31")
def test_a_delay_of_ten_seconds(anywhere: StreamExecutionEnvironment, how: str, less: int) -> None:
    seen = delayed_by(anywhere, 10, [20_000, 15_000, 30_000], how)

    assert seen == [10_000 - less, 10_000 - less, 20_000 - less]


@LESS
@pytest.mark.spec("004/AX-014")
@pytest.mark.spec("004/WMK-003", "003/TM-08")
def test_an_event_at_ten_past_ten_with_a_delay_of_3_seconds(
    anywhere: StreamExecutionEnvironment, how: str, less: int
) -> None:
    seen = delayed_by(anywhere, 3, [10 * HOUR + 10 * MINUTE], how)

    assert seen == [10 * HOUR + 9 * MINUTE + 57_000 - less]


@LESS
@pytest.mark.spec("004/AX-016")
@pytest.mark.spec("004/WMK-009")
def test_an_earlier_event_leaves_time_where_it_was(
    anywhere: StreamExecutionEnvironment, how: str, less: int
) -> None:
    seen = delayed_by(anywhere, 3, [10 * HOUR + 10_000, 10 * HOUR + 5_000], how)

    assert seen == [10 * HOUR + 7_000 - less] * 2
