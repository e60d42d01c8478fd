"""Windows of streams by event time and by count, on every executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.base import RangeReader
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import Poll, ReaderContext
from tidegate.datastream import (
    AggregateFunction,
    AllWindowFunction,
    DataStream,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from tidegate.datastream.window import (
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tidegate.errors import ConfigError
from tidegate.runtime.stream.watermarks import WatermarkGenerator

Env = StreamExecutionEnvironment
Item = tuple[str, Any, int] | int

seconds, millis = Duration.of_seconds, Duration.of_millis
FIVE_SECONDS = TumblingEventTimeWindows.of(seconds(5))


class AsWritten(WatermarkGenerator):
    """A number among the records is a watermark."""

    asked = "record"

    def __init__(self) -> None:
        self.newest: int | None = None

    def on_event(self, value: Item, timestamp: int) -> None:
        if isinstance(value, int):
            self.newest = value

    def watermark(self) -> int | None:
        return self.newest


def stream(env: Env, *items: Item) -> DataStream:
    """Records `(key, value, time)` in this order, with the watermarks among them."""
    times = WatermarkStrategy.for_generator(AsWritten).with_timestamp_assigner(
        lambda item, _: item if isinstance(item, int) else item[2]
    )
    stamped = env.from_collection(items).set_parallelism(1).assign_timestamps_and_watermarks(times)
    return stamped.set_parallelism(1).filter(lambda item: not isinstance(item, int)).set_parallelism(1)


def pairs(env: Env, *items: Item) -> Any:
    """The same as `(key, value)`, by key."""
    return stream(env, *items).map(lambda item: item[:2]).set_parallelism(1).key_by(lambda pair: pair[0])


def forbid_late(found: tuple[str, int, list[int]]) -> int:
    _, start, values = found
    assert values in ([1], [5])
    return start


def in_order(found: DataStream) -> list[Any]:
    return sorted(found.execute_and_collect())


class Listed(WindowFunction):
    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        yield key, window.start, sorted(value for _, value in inputs)


class Counted(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        yield f"window {context.window()} count: {len(list(elements))}"


class Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: tuple[str, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_1: tuple[int, int], acc_2: tuple[int, int]) -> tuple[int, int]:
        return acc_1[0] + acc_2[0], acc_1[1] + acc_2[1]


class WithKey(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        (average,) = elements
        yield key, average


@pytest.mark.spec("002/AX-16")
def test_reducing_combines_the_records_of_a_window(anywhere: Env) -> None:
    records = pairs(anywhere, ("a", 1, 100), ("a", 2, 200), ("a", 4, 300))

    assert in_order(records.window(FIVE_SECONDS).reduce(lambda a, b: (a[0], a[1] + b[1]))) == [("a", 7)]


@pytest.mark.spec("000/EX-10")
def test_a_reduce_function_runs_per_user_and_five_seconds(anywhere: Env) -> None:
    class Largest(ReduceFunction):
        def reduce(self, value1: Any, value2: Any) -> Any:
            return max(value1, value2, key=lambda pair: pair[1])

    records = pairs(
        anywhere, ("ada", 3, 0), ("ada", 8, 4_999), ("bob", 5, 1_000), ("ada", 1, 5_000), ("bob", 2, 9_999)
    )

    found = in_order(records.window(FIVE_SECONDS).reduce(Largest()))
    assert found == [("ada", 1), ("ada", 8), ("bob", 2), ("bob", 5)]


@pytest.mark.spec("002/AX-17")
def test_an_average_is_aggregated_and_labelled_with_its_key(anywhere: Env) -> None:
    average = Average()
    assert average.add(("a", 2), average.add(("a", 1), average.create_accumulator())) == (3, 2)
    assert average.merge((3, 2), (5, 1)) == (8, 3)
    plain = pairs(anywhere, ("a", 1, 100), ("a", 2, 200)).window(FIVE_SECONDS).aggregate(average)
    labelled = pairs(anywhere, ("a", 1, 100), ("a", 2, 200)).window(FIVE_SECONDS)

    assert in_order(plain) == [1.5]
    assert in_order(labelled.aggregate(Average(), WithKey())) == [("a", 1.5)]


@pytest.mark.spec("002/AX-18", "002/AX-21")
def test_folding_starts_with_a_value_and_may_be_labelled(anywhere: Env) -> None:
    def records() -> Any:
        return pairs(anywhere, ("a", 1, 100), ("a", 2, 200), ("a", 3, 300)).window(FIVE_SECONDS)

    assert in_order(records().fold("", lambda text, pair: text + str(pair[1]))) == ["123"]
    counted = records().fold(
        0, lambda count, pair: count + 1, lambda key, window, counts: [(key, window.end, *counts)]
    )
    assert in_order(counted) == [("a", 5_000, 3)]


@pytest.mark.spec("002/AX-19")
def test_a_window_function_sees_all_records(anywhere: Env) -> None:
    records = pairs(anywhere, ("a", 1, 100), ("a", 2, 200), ("a", 3, 299_999))

    found = in_order(records.window(TumblingEventTimeWindows.of(Duration.of_minutes(5))).process(Counted()))
    assert found == ["window TimeWindow(start=0, end=300000) count: 3"]


@pytest.mark.spec("002/AX-20")
def test_the_smallest_reading_comes_with_the_start_of_its_window(anywhere: Env) -> None:
    records = stream(anywhere, ("s", 5, 7_000), ("s", 3, 8_000), ("s", 3, 9_000)).key_by(lambda item: item[0])
    smallest = records.window(FIVE_SECONDS).reduce(
        lambda a, b: b if a[1] > b[1] else a,
        lambda key, window, readings: [(window.start, reading) for reading in readings],
    )

    assert in_order(smallest) == [(5_000, ("s", 3, 8_000))]


@pytest.mark.spec("002/AX-12", "002/AX-13", "004/AX-017")
@pytest.mark.parametrize("lateness", [5_000, 0])
@pytest.mark.spec("004/WMK-011", "004/WMK-012", "004/WMK-013", "004/WMK-014")
def test_what_is_late_is_counted_in_again_or_goes_to_the_side(anywhere: Env, lateness: int) -> None:
    late = OutputTag("late-data")
    records = stream(
        anywhere, ("k", 1, 1_000), 4_999, ("k", 3, 3_000), 7_000, ("k", 5, 4_500), 10_000, ("k", 4, 4_000)
    )
    listed = (
        records.key_by(lambda item: item[0])
        .window(FIVE_SECONDS)
        .allowed_lateness(lateness)
        .side_output_late_data(late)
        .apply(lambda key, window, items: [[value for _, value, _ in items]])
    )
    both = listed.map(lambda values: ("fired", values)).union(
        listed.get_side_output(late).map(lambda item: ("late", item[1]))
    )

    found = in_order(both)
    fired = [values for kind, values in found if kind == "fired"]
    assert fired == ([[1], [1, 3], [1, 3, 5]] if lateness else [[1]])
    assert sorted(value for kind, value in found if kind == "late") == ([4] if lateness else [3, 4, 5])


@pytest.mark.spec("004/WMK-010")
def test_late_data_without_a_side_output_is_dropped_and_counted(anywhere: Env) -> None:
    records = pairs(anywhere, ("k", 1, 1_000), 5_000, ("k", 3, 3_000), ("k", 4, 4_000), ("k", 5, 6_000))
    records.window(FIVE_SECONDS).apply(Listed()).uid("per-key").map(forbid_late).print()

    metrics = anywhere.execute().metrics

    dropped = [count for name, count in metrics.items() if name.endswith(".numLateRecordsDropped")]
    assert sorted(map(str, dropped), reverse=True)[0] == "2"
    assert all(name.startswith("per-key.") for name in metrics if name.endswith("Dropped"))


@pytest.mark.spec("002/AX-14")
def test_windows_of_windows_meet_in_the_same_five_seconds(anywhere: Env) -> None:
    class Top(ProcessAllWindowFunction):
        def process(self, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
            yield max(elements, key=lambda pair: pair[1]), context.window().start

    records = pairs(
        anywhere, ("a", 1, 0), ("b", 4, 1_000), ("a", 2, 2_000), ("b", 5, 4_000), ("a", 7, 6_000), 20_000
    )
    sums = records.window(FIVE_SECONDS).reduce(lambda a, b: (a[0], a[1] + b[1]))

    top = sums.window_all(FIVE_SECONDS).process(Top())
    assert in_order(top) == [(("a", 7), 5_000), (("b", 9), 0)]


@pytest.mark.spec("000/EX-14")
@pytest.mark.spec("004/WIN-003")
def test_purchases_are_summed_over_minutes_that_slide_by_half_of_one(anywhere: Env) -> None:
    records = pairs(anywhere, ("ada", 2, 10_000), ("ada", 3, 40_000), ("ada", 4, 70_000))
    sliding = SlidingEventTimeWindows.of(Duration.of_minutes(1), seconds(30))
    windows = records.window(sliding).reduce(
        lambda a, b: (a[0], a[1] + b[1]), lambda key, window, sums: [(window.start, key, sums[0][1])]
    )

    assert in_order(windows) == [(-30_000, "ada", 2), (0, "ada", 5), (30_000, "ada", 7), (60_000, "ada", 4)]


@pytest.mark.spec("000/EX-20", "002/AX-27")
def test_sessions_merge_by_their_gap_and_a_touching_one_joins(anywhere: Env) -> None:
    times = [0, 14, 5, 40]
    sessions = EventTimeSessionWindows.with_gap(millis(10))
    bounds = lambda key, window, items: [(window.start, window.end, [at for _, _, at in items])]  # noqa: E731
    by_key = stream(anywhere, *(("k", None, at) for at in times)).key_by(lambda item: item[0])
    assert in_order(by_key.window(sessions).apply(bounds)) == [(0, 24, [0, 14, 5]), (40, 50, [40])]

    late: list[Item] = [*(("k", None, at) for at in times), 25, ("k", None, 30)]
    by_key = stream(anywhere, *late).key_by(lambda item: item[0])
    assert in_order(by_key.window(sessions).apply(bounds)) == [(0, 24, [0, 14, 5]), (30, 50, [40, 30])]


@pytest.mark.spec("004/AX-009")
@pytest.mark.spec("004/WIN-008")
def test_silence_of_one_gap_closes_a_session(anywhere: Env) -> None:
    records = pairs(anywhere, ("k", 1, 0), ("k", 2, 9), ("k", 3, 18), ("k", 4, 29), ("k", 5, 50))
    found = in_order(records.window(EventTimeSessionWindows.with_gap(millis(10))).apply(Listed()))

    assert found == [("k", 0, [1, 2, 3]), ("k", 29, [4]), ("k", 50, [5])]


@pytest.mark.spec("002/AX-28")
def test_a_global_window_needs_a_trigger(anywhere: Env) -> None:
    def windows() -> Any:
        return pairs(anywhere, *(("k", n, n) for n in range(1, 5))).window(GlobalWindows.create())

    with pytest.warns(UserWarning, match="a global window without a trigger never fires"):
        silent = windows().sum(1)
    assert in_order(silent) == []
    assert in_order(windows().trigger(CountTrigger.of(3)).sum(1)) == [("k", 6)]


@pytest.mark.spec("000/EX-15", "000/EX-29", "002/AX-22", "004/AX-008")
@pytest.mark.spec("004/WIN-002", "004/WIN-006", "004/WIN-007")
def test_count_windows_fire_by_their_number_of_records(anywhere: Env) -> None:
    def fired(count: int, size: int, slide: int = 0) -> list[list[int]]:
        counted = pairs(anywhere, *(("k", n, n) for n in range(1, count + 1))).count_window(size, slide)
        listed = counted.apply(lambda key, window, items: [[value for _, value in items]])
        return in_order(listed)

    assert fired(8, 4, 2) == [[1, 2], [1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 8]]
    assert [len(values) for values in fired(250, 100)] == [100, 100]
    assert fired(7, 3) == [[1, 2, 3], [4, 5, 6]]
    assert [values[-1] for values in fired(17, 5)] == [5, 10, 15]
    assert [(values[0], values[-1]) for values in fired(17, 10, 5)] == [(1, 5), (1, 10), (6, 15)]


@pytest.mark.spec("000/EX-18")
def test_a_sliding_count_sums_the_latest_four(anywhere: Env) -> None:
    records = pairs(anywhere, *(("k", value, 0) for value in (2, 5, 7, 9, 4, 2)))

    assert in_order(records.count_window(4, 2).sum(1)) == sorted(("k", total) for total in (7, 23, 22))


@pytest.mark.spec("000/EX-16")
def test_every_ten_purchases_the_latest_hundred_are_summed(anywhere: Env) -> None:
    records = pairs(anywhere, *(("ada", n, 0) for n in range(1, 131)))

    sums = [total for _, total in in_order(records.count_window(100, 10).sum(1))]
    assert sums == [sum(range(max(1, last - 99), last + 1)) for last in range(10, 131, 10)]


@dataclass(frozen=True)
class OneByOne(GeneratorSource[Any]):
    """Each record is a batch of its own, so that a watermark may follow each."""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return SingleRecords(self._read)


class SingleRecords(RangeReader):
    def poll(self, limit: int) -> Poll:
        return super().poll(1)


@pytest.mark.spec("004/AX-015")
@pytest.mark.parametrize(
    ("delay_ms", "counted"),
    [
        (120_000, ["12:00", "12:09", "12:11:59.999", "12:04", "12:12"]),
        (120_001, ["12:00", "12:09", "12:11:59.999", "12:04", "12:12", "12:05"]),
        (119_999, ["12:00", "12:09", "12:11:59.999", "12:12"]),
        (0, ["12:00", "12:09", "12:11:59.999", "12:12"]),
    ],
    ids=["two minutes", "a millisecond more", "a millisecond less", "none"],
)
@pytest.mark.spec("004/WMK-002", "004/WMK-004")
def test_a_window_fires_when_a_record_is_as_late_as_the_delay_behind_its_end(
    anywhere: Env, delay_ms: int, counted: list[str]
) -> None:
    arriving = [
        ("12:00", 0),
        ("12:09", 540_000),
        ("12:11:59.999", 719_999),
        ("12:04", 240_000),
        ("12:12", 720_000),
        ("12:05", 300_000),
    ]
    delayed = WatermarkStrategy.for_bounded_out_of_orderness(millis(delay_ms)).with_timestamp_assigner(
        lambda item, _: item[1]
    )
    source = anywhere.from_source(OneByOne(lambda number: arriving[number], len(arriving)))
    stamped = source.set_parallelism(1).assign_timestamps_and_watermarks(delayed).set_parallelism(1)
    ten_minutes = TumblingEventTimeWindows.of(Duration.of_minutes(10))
    listed = stamped.window_all(ten_minutes).apply(
        lambda key, window, items: [(window.start, [name for name, _ in items])]
    )

    assert in_order(listed) == [
        (0, [name for name in counted if name < "12:10"]),
        (600_000, [name for name in counted if name >= "12:10"]),
    ]


def test_windows_without_keys_take_records_of_all_subtasks(anywhere: Env) -> None:
    class Total(AllWindowFunction):
        def apply(self, window: Any, inputs: Iterable[int]) -> Iterator[Any]:
            yield window.start, sum(inputs)

    by_value = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = anywhere.from_collection(range(20)).assign_timestamps_and_watermarks(by_value)

    totals = numbers.window_all(TumblingEventTimeWindows.of(millis(10))).allowed_lateness(millis(99))
    assert max(in_order(totals.apply(Total()))) == (10, sum(range(10, 20)))
    assert in_order(anywhere.from_collection([1] * 20).count_window_all(10).sum()) == [10, 10]


@pytest.mark.parametrize(
    ("how", "expected"),
    [("sum", ("k", 6, "a")), ("min", ("k", 1, "a")), ("max", ("k", 3, "a"))],
)
def test_aggregations_of_a_field(anywhere: Env, how: str, expected: tuple[Any, ...]) -> None:
    records = stream(anywhere, ("k", 2, 0), ("k", 1, 1), ("k", 3, 2)).map(
        lambda item: (*item[:2], "abc"[item[2]])
    )
    windows = records.set_parallelism(1).key_by(lambda item: item[0]).window(FIVE_SECONDS)

    assert in_order(getattr(windows, how)(1)) == [expected]


def test_aggregations_that_keep_a_whole_record(anywhere: Env) -> None:
    def windows() -> Any:
        records = stream(anywhere, ("k", 2, 0), ("k", 1, 1), ("k", 3, 2), ("k", 1, 3))
        return records.key_by(lambda item: item[0]).window(FIVE_SECONDS)

    assert in_order(windows().min_by(1)) == [("k", 1, 1)]
    assert in_order(windows().max_by(1)) == [("k", 3, 2)]


@pytest.mark.spec("001/EX-05")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("update", [(0, 1), (5_000, 2), (0, 2)]),
        ("append", [(0, 1), (5_000, 2)]),
        ("complete", [(0, 1), (0, 1), (5_000, 2), (0, 2), (5_000, 2)]),
    ],
)
def test_windows_that_fire_again_emit_what_their_output_mode_says(
    anywhere: Env, mode: Any, expected: list[tuple[int, int]]
) -> None:
    records = stream(
        anywhere, ("k", 1, 1_000), 5_000, ("k", 1, 6_000), ("k", 1, 7_000), 10_000, ("k", 1, 2_000), 30_000
    )
    windows = records.key_by(lambda item: item[0]).window(FIVE_SECONDS).allowed_lateness(seconds(10))

    counted = windows.output_mode(mode).apply(lambda key, window, items: [(window.start, len(items))])
    assert in_order(counted) == sorted(expected)


@pytest.fixture
def windows() -> Any:
    env = Env.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
    return env.from_collection([1]).key_by(lambda n: n).window(EventTimeSessionWindows.with_gap(millis(1)))


@pytest.mark.spec("002/AX-56")
@pytest.mark.parametrize(
    "sessions",
    [
        EventTimeSessionWindows.with_gap(millis(1)),
        EventTimeSessionWindows.with_dynamic_gap(lambda number: number),
        ProcessingTimeSessionWindows.with_gap(millis(1)),
        ProcessingTimeSessionWindows.with_dynamic_gap(lambda number: number),
    ],
    ids=["event time", "event time, dynamic", "processing time", "processing time, dynamic"],
)
def test_fold_over_sessions_is_refused(anywhere: Env, sessions: Any) -> None:
    numbers = anywhere.from_collection([1])

    for windows in (numbers.key_by(lambda number: number).window(sessions), numbers.window_all(sessions)):
        with pytest.raises(ConfigError, match="fold cannot be used with session windows, because they merge"):
            windows.fold("", lambda text, number: text + str(number))


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda w: w.trigger(5), "trigger takes a Trigger; got int"),
        (lambda w: w.trigger(DeltaTrigger.of(1, max)), "DeltaTrigger cannot be used with session windows"),
        (lambda w: w.evictor(5), "evictor takes a Evictor; got int"),
        (lambda w: w.allowed_lateness(-1), "the allowed lateness is -1; expected milliseconds, at least 0"),
        (lambda w: w.side_output_late_data("late"), "side_output_late_data takes a OutputTag; got str"),
        (lambda w: w.output_mode("all"), "the output mode is 'all'; expected update, append or complete"),
        (lambda w: w.output_mode("complete"), "session windows do not support output mode complete"),
        (lambda w: w.reduce(5), "reduce takes a function of two records; got int"),
        (lambda w: w.aggregate(max), "aggregate takes a AggregateFunction; got builtin_function_or_method"),
        (
            lambda w: w.apply(5),
            "apply takes a WindowFunction or ProcessWindowFunction or a function; got int",
        ),
        (lambda w: w.process(None), "process takes a WindowFunction or ProcessWindowFunction or a function"),
    ],
)
def test_what_windows_cannot_do_is_refused(windows: Any, misuse: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        misuse(windows)


def test_a_stream_is_cut_by_an_assigner_only() -> None:
    env = Env.get_execution_environment({"execution.target": "inline"})
    with pytest.raises(ConfigError, match="window takes a WindowAssigner; got int"):
        env.from_collection([1]).key_by(lambda n: n).window(5)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match="fold takes a function of two values; got int"):
        env.from_collection([1]).count_window_all(2).fold(0, 5)  # type: ignore[arg-type]  # on purpose
