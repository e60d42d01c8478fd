"""Programs that others have written down together with what comes of them, on every executor."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.written import Numbered
from tests.waiting import until
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    TimeCharacteristic,
    state,
)
from tidegate.datastream.window import (
    PurgingTrigger,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from tidegate.keys import key_bytes, key_group
from tidegate.runtime.client import JobStatus

Env = StreamExecutionEnvironment

seconds, minutes = Duration.of_seconds, Duration.of_minutes


def in_time(env: Env, *records: tuple[str, int, int]) -> DataStream:
    """Records `(key, value, time)` as `(key, value)`, in this order, with event time."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[2])
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    stamped = env.from_collection(records).set_parallelism(1).assign_timestamps_and_watermarks(times)
    return stamped.set_parallelism(1).map(lambda record: record[:2]).set_parallelism(1)


def purchases(env: Env, *counts: int, user: str = "ada") -> Any:
    return in_time(env, *((user, count, at) for at, count in enumerate(counts))).key_by(lambda pair: pair[0])


def in_order(stream: DataStream) -> list[Any]:
    """What a stream of one key emits, as it does."""
    numbered = stream.map(Numbered()).set_parallelism(1)
    return [value for _, value in sorted(numbered.execute_and_collect())]


@pytest.mark.spec("000/EX-14")
def test_purchases_over_a_minute_that_slides_by_half_of_one(anywhere: Env) -> None:
    bought = in_time(anywhere, ("ada", 2, 10_000), ("ada", 3, 40_000), ("bob", 9, 59_999), ("ada", 4, 70_000))

    sums = bought.key_by(lambda pair: pair[0]).time_window(minutes(1), seconds(30)).sum(1)

    found = Counter(sums.execute_and_collect())
    assert found == Counter({("ada", 2): 1, ("ada", 5): 1, ("ada", 7): 1, ("ada", 4): 1, ("bob", 9): 2})


@pytest.mark.spec("000/EX-15", "002/AX-22")
def test_purchases_by_the_hundred_and_a_rest_that_waits(anywhere: Env) -> None:
    sums = purchases(anywhere, *range(1, 251)).count_window(100).sum(1)

    assert in_order(sums) == [("ada", sum(range(1, 101))), ("ada", sum(range(101, 201)))]


@pytest.mark.spec("000/EX-16")
def test_every_ten_purchases_the_sum_of_the_latest_hundred(anywhere: Env) -> None:
    sums = purchases(anywhere, *range(1, 131)).count_window(100, 10).sum(1)

    assert in_order(sums) == [("ada", sum(range(max(1, last - 99), last + 1))) for last in range(10, 131, 10)]


@pytest.mark.spec("000/EX-18")
def test_a_count_of_four_that_slides_by_two_keeps_the_last_four(anywhere: Env) -> None:
    given = (2, 5, 7, 9, 4, 2)
    sums = purchases(anywhere, *given).count_window(4, 2).sum(1)
    assert in_order(sums) == [("ada", 7), ("ada", 23), ("ada", 22)]

    kept = purchases(anywhere, *given).count_window(4, 2)
    listed = kept.apply(lambda key, window, pairs: [[count for _, count in pairs]])
    assert in_order(listed) == [[2, 5], [2, 5, 7, 9], [7, 9, 4, 2]]


@pytest.mark.spec("004/AX-008")
@pytest.mark.parametrize(
    ("slide", "expected"),
    [(None, [(0, [0, 4]), (5, [5, 9])]), (5, [(-5, [0, 4]), (0, [0, 4, 5, 9]), (5, [5, 9])])],
    ids=["5 s", "10 s by 5 s"],
)
def test_a_record_is_in_one_tumbling_or_in_two_sliding_windows(
    anywhere: Env, slide: int | None, expected: list[tuple[int, list[int]]]
) -> None:
    ticks = in_time(anywhere, *(("k", at, at * 1_000) for at in (0, 4, 5, 9))).key_by(lambda pair: pair[0])
    windows = (
        ticks.time_window(seconds(5)) if slide is None else ticks.time_window(seconds(10), seconds(slide))
    )

    listed = windows.apply(lambda key, window, pairs: [(window.start // 1_000, [at for _, at in pairs])])

    assert sorted(listed.execute_and_collect()) == expected


class Always(Trigger):
    """Fires at every record."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None: ...

    def clear(self, window: Any, ctx: Any) -> None: ...


@pytest.mark.spec("004/AX-010")
@pytest.mark.parametrize(
    ("trigger", "expected"),
    [(Always(), [1, 3, 6]), (PurgingTrigger.of(Always()), [1, 2, 3])],
    ids=["FIRE", "FIRE_AND_PURGE"],
)
def test_firing_keeps_what_a_window_holds_and_purging_does_not(
    anywhere: Env, trigger: Trigger, expected: list[int]
) -> None:
    windows = purchases(anywhere, 1, 2, 3).window(TumblingEventTimeWindows.of(seconds(5))).trigger(trigger)

    assert in_order(windows.sum(1)) == [("ada", total) for total in expected]


class Lines(SinkFunction):
    def __init__(self, file: Path) -> None:
        self.file = file

    def invoke(self, value: Any, context: Any) -> None:
        with self.file.open("a") as file:
            file.write(f"{value}\n")


@pytest.mark.spec("002/AX-08")
def test_a_program_has_the_default_number_of_key_groups() -> None:
    def described(parallelism: int) -> str:
        env = Env.get_execution_environment(
            {"execution.target": "inline", "parallelism.default": parallelism}
        )
        env.from_collection([1]).key_by(lambda number: number).sum().print()
        return env.explain()

    for parallelism, groups in {1: 128, 64: 128, 85: 128, 86: 256, 100: 256, 1_000: 2_048}.items():
        assert f"sum: per key, in {groups} key groups\n" in described(parallelism)


class Where(KeyedProcessFunction):
    """Numbers the records of each key, and adds where it does so."""

    seen = state.Value(int, default=0)

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.of = runtime_context.get_number_of_parallel_subtasks()

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.seen.update(self.seen.value() + 1)
        yield f"{self.of} {ctx.get_current_key()} {self.seen.value()} {self.subtask}"


@pytest.mark.spec("004/AX-007")
def test_a_key_stays_in_its_subtask_and_moves_with_its_key_group(anywhere: Env, tmp_path: Path) -> None:
    before = anywhere.get_config().get_parallelism()
    anywhere.enable_checkpointing(100)

    def lines() -> list[list[int]]:
        texts = [line for part in tmp_path.glob("part-*") for line in part.read_text().splitlines()]
        return [[int(word) for word in json.loads(text).split()] for text in texts]

    for parallelism in (before, before + 1):
        anywhere.set_parallelism(parallelism)
        numbers = anywhere.from_source(GeneratorSource(int, count=None, rate_per_second=500))
        counted = numbers.uid("numbers").key_by(lambda number: number % 20).process(Where()).uid("count")
        counted.sink_to(FileSink(str(tmp_path))).uid("files")
        client = anywhere.execute_async("counts")
        until(lambda: max((line[0] for line in lines()), default=0), equals=parallelism, job=client)
        client.stop().result(timeout=60)

    found = lines()
    for of, key, _, subtask in found:
        assert subtask == key_group(key_bytes(key), 128) * of // 128
    for key in range(20):
        counts = sorted(count for _, each, count, _ in found if each == key)
        assert counts == list(range(1, len(counts) + 1))


class UntilTold(SourceFunction):
    """Emits one record, then waits for a file."""

    def __init__(self, told: Path) -> None:
        self.told = told
        self.running = True

    def run(self, ctx: Any) -> None:
        ctx.collect(1)
        pause = threading.Event()
        while self.running and not self.told.exists():
            pause.wait(0.005)

    def cancel(self) -> None:
        self.running = False


@pytest.mark.spec("004/AX-039")
def test_a_local_submission_ends_in_a_client_with_id_and_status(anywhere: Env, tmp_path: Path) -> None:
    told, out = tmp_path / "told", tmp_path / "out"
    anywhere.add_source(UntilTold(told)).map(lambda number: number + 1).add_sink(Lines(out))
    assert len(json.loads(anywhere.get_execution_plan())["nodes"]) == 3
    target = anywhere.explain().splitlines()[0].rpartition(" on ")[2]
    assert target in ("inline", "embedded")
    assert not out.exists()

    client = anywhere.execute_async("local")

    until(out.exists, job=client)
    # A first record may be written before all of the job is heard of.
    until(lambda: client.get_job_status().result() is JobStatus.RUNNING, job=client)
    told.touch()
    result = client.get_job_execution_result().result(timeout=60)
    assert (result.get_job_id(), result.name, result.records) == (client.get_job_id(), "local", 1)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert out.read_text() == "2\n"


def clock(hour: int, minute: int) -> int:
    """Milliseconds from midnight."""
    return (hour * 60 + minute) * 60_000


@pytest.mark.spec("004/AX-013")
def test_clicks_that_arrive_in_reverse_are_windowed_by_when_they_happened(anywhere: Env) -> None:
    clicks = anywhere.from_collection([("B", clock(11, 3)), ("A", clock(11, 2))]).set_parallelism(1)
    times = WatermarkStrategy.for_bounded_out_of_orderness(minutes(1)).with_timestamp_assigner(
        lambda click, _: click[1]
    )
    stamped = clicks.assign_timestamps_and_watermarks(times).set_parallelism(1)

    windows = stamped.window_all(TumblingEventTimeWindows.of(minutes(1)))

    listed = windows.apply(lambda key, window, clicks: [(window.start, [user for user, _ in clicks])])
    assert in_order(listed) == [(clock(11, 2), ["A"]), (clock(11, 3), ["B"])]
