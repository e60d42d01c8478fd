"""Event time: who gives it, when it moves, who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.runtime.stream.written import Numbered
from tidegate.clock import ManualClock
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.errors import ConfigError, JobFailedError, RecordError
from tidegate.runtime.operators.operator import Piece
from tidegate.runtime.operators.stamp import Stamp
from tidegate.runtime.stream.watermarks import TimestampAssigner, WatermarkGenerator, ingestion_time


class Itself(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


class EveryRecord(WatermarkGenerator):
    """Time is where the newest record is, right behind it."""

    asked = "record"

    def __init__(self) -> None:
        self.newest: int | None = None

    def on_event(self, value: Any, timestamp: int) -> None:
        self.newest = timestamp if self.newest is None else max(self.newest, timestamp)

    def watermark(self) -> int | None:
        return self.newest


def by_record() -> WatermarkStrategy:
    return WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(Itself())


class Tell(ProcessFunction):
    """Emits each record with its time and how far time was."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, int | None, int]]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def in_order(stream: DataStream) -> list[Any]:
    """What a stream of parallelism 1 holds, in its order."""
    return [value for _, value in sorted(stream.map(Numbered()).set_parallelism(1).execute_and_collect())]


def stamp(strategy: WatermarkStrategy, clock: ManualClock | None = None) -> Stamp:
    return Stamp(strategy, clock or ManualClock())


def see(operator: Stamp, *values: Any) -> list[int | None]:
    """The watermark behind each of the values."""
    marks = []
    for value in values:
        operator.calls[0].function(value, None)
        marks.append(operator.own_watermark())
    return marks


def test_a_bounded_delay_is_taken_off_with_a_millisecond_and_time_never_goes_back() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
    operator = stamp(strategy.with_timestamp_assigner(lambda value, timestamp: value))

    assert see(operator, 20_000, 15_000, 30_000) == [9_999, None, 19_999]


def test_monotonous_timestamps_are_followed_a_millisecond_behind() -> None:
    operator = stamp(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself()))

    assert see(operator, 5, 7) == [4, 6]


def test_only_the_end_of_time_passes_from_before() -> None:
    operator = stamp(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself()))

    assert [operator.forwarded(mark) for mark in (7, MAX_WATERMARK)] == [None, MAX_WATERMARK]
    assert see(operator, 9) == [None]


@pytest.mark.parametrize("wrong", [1.5, None, True, "7"], ids=repr)
def test_a_timestamp_that_is_none_is_refused_with_its_record(wrong: Any) -> None:
    operator = stamp(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, t: wrong)
    )

    with pytest.raises(RecordError, match=r"returned .* for record 'r'; expected milliseconds as int"):
        see(operator, "r")


def test_a_record_without_any_timestamp_says_that_an_assigner_is_missing() -> None:
    with pytest.raises(RecordError, match="record 5 has no timestamp; give the watermark strategy"):
        see(stamp(WatermarkStrategy.for_monotonous_timestamps()), 5)


def test_an_assigner_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="a timestamp assigner is a function; got int"):
        stamp(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(5))  # type: ignore[arg-type] # the mistake


def test_an_assigner_sees_the_timestamp_a_record_has_or_the_lowest_there_is() -> None:
    seen: list[int] = []

    def assign(value: str, timestamp: int) -> int:
        seen.append(timestamp)
        return 1

    operator = stamp(WatermarkStrategy.no_watermarks().with_timestamp_assigner(assign))

    operator.calls[0].function("a", None)
    operator.calls[0].function("b", 77)

    assert seen == [MIN_WATERMARK, 77]


def test_a_silent_source_is_idle_after_its_time_and_active_again_with_a_record() -> None:
    clock = ManualClock(now_ms=1_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    operator = stamp(strategy.with_idleness(Duration.of_seconds(2)), clock)

    assert (operator.own_idleness(), operator.next_processing_time()) == (None, 3_000)
    operator.processing_time(2_999, Piece())
    assert operator.own_idleness() is None
    clock.advance(2_000)
    operator.processing_time(clock.now_ms(), Piece())
    assert [operator.own_idleness(), operator.own_idleness()] == [True, None]
    assert operator.next_processing_time() is None
    see(operator, 7)
    assert [operator.own_idleness(), operator.own_idleness()] == [False, None]
    assert operator.next_processing_time() == 5_000
    operator.forwarded(MAX_WATERMARK)
    assert operator.next_processing_time() is None


def test_a_silent_source_is_idle_in_time_though_the_wall_clock_was_set_back() -> None:
    clock = ManualClock(now_ms=5_000_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    operator = stamp(strategy.with_idleness(Duration.of_seconds(2)), clock)
    clock.set(1_000_000)

    assert operator.next_processing_time() == 1_002_000
    clock.advance(2_000)
    operator.processing_time(clock.now_ms(), Piece())
    assert operator.own_idleness() is True


def test_an_idle_time_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="the idle timeout is 0 ms; expected more than 0"):
        WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(0))


def test_ingestion_time_follows_a_clock_that_may_go_back() -> None:
    clock = ManualClock(now_ms=1_000)
    operator = stamp(ingestion_time(), clock)
    call = operator.calls[0].function

    assert call("a", 5) == 1_000
    assert operator.own_watermark() == 999
    clock.set(400)
    assert call("b", None) == 1_000
    assert operator.next_processing_time() == 600
    clock.set(1_300)
    operator.processing_time(1_300, Piece())
    assert (operator.own_watermark(), operator.next_processing_time()) == (1_299, 1_500)


def test_time_moves_right_behind_the_record_that_moves_it(anywhere: StreamExecutionEnvironment) -> None:
    records = anywhere.from_collection([5, 3, 9, 8, 12]).set_parallelism(1)

    told = (
        records.assign_timestamps_and_watermarks(by_record())
        .set_parallelism(1)
        .process(Tell())
        .set_parallelism(1)
        .rebalance()
        .process(Tell())
        .set_parallelism(1)
    )

    results = in_order(told)
    assert [value for value, _, _ in results] == [
        (5, 5, MIN_WATERMARK),
        (3, 3, 5),
        (9, 9, 5),
        (8, 8, 9),
        (12, 12, 9),
    ]
    # Behind an exchange, too, the watermark stands between the records it was made between.
    assert [(value[0], time, mark) for value, time, mark in results] == [value for value, _, _ in results]


def test_a_source_stamps_what_it_reads(anywhere: StreamExecutionEnvironment) -> None:
    source = CollectionSource([4, 6])

    told = anywhere.from_source(source, by_record(), "numbers").set_parallelism(1).process(Tell())

    assert sorted((value, time) for value, time, _ in told.execute_and_collect()) == [(4, 4), (6, 6)]


def test_a_branch_beside_a_stamp_keeps_its_own_time(anywhere: StreamExecutionEnvironment) -> None:
    first = anywhere.from_source(CollectionSource([4]), by_record()).set_parallelism(1)
    later = by_record().with_timestamp_assigner(lambda value, timestamp: timestamp + 100)

    both = (
        first.assign_timestamps_and_watermarks(later)
        .set_parallelism(1)
        .process(Tell())
        .union(first.process(Tell()).set_parallelism(1))
    )

    assert sorted((value, time) for value, time, _ in both.execute_and_collect()) == [(4, 4), (4, 104)]


class When(KeyedCoProcessFunction):
    """A timer per record of the first stream tells how far time was when it fired."""

    def process_element1(self, value: int, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def process_element2(self, value: int, ctx: Any) -> None:
        return None

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int]]:
        yield timestamp, ctx.timer_service().current_watermark()


def test_time_over_two_inputs_is_that_of_the_slower_one(anywhere: StreamExecutionEnvironment) -> None:
    fast = anywhere.from_source(CollectionSource([10, 20, 30]), by_record()).set_parallelism(1)
    slow = anywhere.from_source(
        CollectionSource([15]),
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself()),
    ).set_parallelism(1)

    fired = fast.connect(slow).key_by(lambda v: 0, lambda v: 0).process(When()).set_parallelism(1)

    marks = dict(fired.execute_and_collect())
    assert sorted(marks) == [10, 20, 30]
    assert marks[10] in (10, 14, MAX_WATERMARK)
    assert marks[20] in (20, 30, MAX_WATERMARK)
    assert marks[20] >= 20


def test_the_end_of_the_input_ends_time(anywhere: StreamExecutionEnvironment) -> None:
    class Last(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(MAX_WATERMARK)
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int]]:
            yield timestamp, ctx.timer_service().current_watermark()

    last = anywhere.from_collection([1]).key_by(lambda v: v).process(Last())

    assert list(last.execute_and_collect()) == [(1, MAX_WATERMARK), (MAX_WATERMARK, MAX_WATERMARK)]


class Alarms(KeyedProcessFunction):
    def process_element(self, value: tuple[str, int], ctx: Any) -> None:
        for _ in range(3):
            ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        yield ctx.get_current_key(), timestamp


@pytest.mark.spec("002/AX-32")
def test_a_timer_fires_once_per_key_and_time_however_often_it_is_registered(
    anywhere: StreamExecutionEnvironment,
) -> None:
    records = [("a", 1000), ("b", 1000), ("c", 1234 // 1000 * 1000), ("c", 1999 // 1000 * 1000)]
    records.append(("c", 2001 // 1000 * 1000))

    fired = anywhere.from_collection(records).key_by(lambda v: v[0]).process(Alarms())

    assert sorted(fired.execute_and_collect()) == [("a", 1000), ("b", 1000), ("c", 1000), ("c", 2000)]


@pytest.mark.spec("002/AX-65")
@pytest.mark.spec("003/TM-11")
def test_an_event_time_timer_fires_when_time_reaches_it_and_not_before(
    anywhere: StreamExecutionEnvironment,
) -> None:
    class At(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[tuple[str, int]]:
            if value == 1:
                ctx.timer_service().register_event_time_timer(10)
            yield "record", value

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
            yield "timer", ctx.timer_service().current_watermark()

    source = anywhere.from_source(CollectionSource([1, 9, 10, 11]), by_record()).set_parallelism(1)

    order = in_order(source.key_by(lambda v: 0).process(At()).set_parallelism(1))

    assert order == [("record", 1), ("record", 9), ("record", 10), ("timer", 10), ("record", 11)]


@pytest.mark.parametrize("idleness", [True, False], ids=["idle", "waited for"])
def test_only_a_source_that_may_be_idle_does_not_hold_time_back(
    anywhere: StreamExecutionEnvironment, idleness: bool
) -> None:
    patient = by_record().with_idleness(Duration.of_millis(50)) if idleness else by_record()
    # One source goes on for a quarter of a second, the other is silent between its first and its last record.
    steady = GeneratorSource(lambda n: 100 + n, count=25, splits=1, rate_per_second=100)
    silent = GeneratorSource(lambda n: n, count=2, splits=1, rate_per_second=1)
    first = anywhere.from_source(steady, by_record()).set_parallelism(1)
    second = anywhere.from_source(silent, patient).set_parallelism(1)

    fired = first.connect(second).key_by(lambda v: 0, lambda v: 0).process(When()).set_parallelism(1)

    marks = dict(fired.execute_and_collect())
    assert sorted(marks) == list(range(100, 125))
    assert (min(marks.values()) < MAX_WATERMARK) == idleness


def test_ingestion_time_is_given_by_sources(anywhere: StreamExecutionEnvironment) -> None:
    assert anywhere.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
    anywhere.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)

    told = list(anywhere.from_collection([1, 2, 3]).process(Tell()).execute_and_collect())

    assert len(told) == 3
    assert all(time is not None and time > 1_600_000_000_000 for _, time, _ in told)


def test_under_event_time_sources_leave_records_as_they_are(anywhere: StreamExecutionEnvironment) -> None:
    anywhere.set_stream_time_characteristic(TimeCharacteristic.EventTime)

    assert [time for _, time, _ in anywhere.from_collection([1]).process(Tell()).execute_and_collect()] == [
        None
    ]


def test_no_watermarks_on_a_source_changes_nothing(anywhere: StreamExecutionEnvironment) -> None:
    source = anywhere.from_source(CollectionSource([1]), WatermarkStrategy.no_watermarks(), "numbers")

    assert [time for _, time, _ in source.process(Tell()).execute_and_collect()] == [None]


def test_a_failing_assigner_is_blamed_on_its_step(anywhere: StreamExecutionEnvironment) -> None:
    broken = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, t: 1 // v)
    stream = anywhere.from_collection([0]).assign_timestamps_and_watermarks(broken).name("clocked")

    with pytest.raises(JobFailedError, match=r"operator 'clocked'.*failed on record 0.*: ZeroDivisionError"):
        list(stream.execute_and_collect())


@pytest.mark.parametrize(
    ("mistake", "match"),
    [
        (
            lambda env: env.from_collection([1]).assign_timestamps_and_watermarks(Itself()),
            "assign_timestamps_and_watermarks takes a WatermarkStrategy; got Itself",
        ),
        (
            lambda env: env.from_source(CollectionSource([1]), "numbers"),
            "from_source takes a WatermarkStrategy; got str",
        ),
        (
            lambda env: env.set_stream_time_characteristic("EventTime"),
            "set_stream_time_characteristic takes a TimeCharacteristic; got str",
        ),
    ],
    ids=["assigner", "name", "characteristic"],
)
def test_a_misuse_says_what_was_expected(mistake: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        mistake(StreamExecutionEnvironment.get_execution_environment())


class Complete(WatermarkGenerator):
    """Of numbers that all come once, time is the last one up to which none is missing."""

    asked = "record"

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def on_event(self, value: int, timestamp: int) -> None:
        self.seen.add(timestamp)

    def watermark(self) -> int | None:
        complete = 0
        while complete + 1 in self.seen:
            complete += 1
        return complete or None


@pytest.mark.spec("003/EX-09")
def test_unordered_numbers_are_grouped_by_the_watermarks_between_them(
    anywhere: StreamExecutionEnvironment,
) -> None:
    strategy = WatermarkStrategy.for_generator(Complete).with_timestamp_assigner(Itself())
    numbers = anywhere.from_source(CollectionSource([2, 3, 1, 5, 6, 4, 7]), strategy).set_parallelism(1)

    told = in_order(numbers.rebalance().process(Tell()).set_parallelism(1))

    groups: dict[int, list[int]] = {}
    for value, _, mark in told:
        groups.setdefault(mark, []).append(value)
    assert [value for value, _, _ in told][:3] == [2, 3, 1]
    assert told[3][2] == 3
    assert [min(group) for group in groups.values()] == [1, 4, 7]


@pytest.mark.spec("002/AX-29", "003/SRC-11")
@pytest.mark.spec("003/TM-10")
def test_a_source_that_emits_watermark_5_fires_the_timer_at_5_downstream(
    anywhere: StreamExecutionEnvironment,
) -> None:
    class AtItsTime(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[tuple[str, int]]:
            if value == 5:
                ctx.timer_service().register_event_time_timer(5)
            yield "record", value

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
            yield "timer", ctx.timer_service().current_watermark()

    source = anywhere.from_source(CollectionSource([5, 9]), by_record()).set_parallelism(1)

    order = in_order(source.key_by(lambda v: 0).process(AtItsTime()).set_parallelism(1))

    assert order == [("record", 5), ("timer", 5), ("record", 9)]


def test_records_of_a_batch_job_need_no_times_as_none_is_late(anywhere: StreamExecutionEnvironment) -> None:
    follows = WatermarkStrategy.for_monotonous_timestamps()
    anywhere.set_runtime_mode(RuntimeExecutionMode.BATCH)

    stream = anywhere.from_source(GeneratorSource(int, count=3), follows, "numbers")

    assert sorted(stream.assign_timestamps_and_watermarks(follows).execute_and_collect()) == [0, 1, 2]
