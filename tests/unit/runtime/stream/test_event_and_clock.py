"""What happened when, and what came when: event time beside the clock, and timers that were due while nothing ran."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import (
    CountTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidegate.runtime.stream.watermarks import WatermarkGenerator

MINUTE = 60_000
Click = tuple[str, int]


class Stopped:
    """A clock that stands still, in every worker."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def sleep(self, seconds: float) -> None:
        SYSTEM_CLOCK.sleep(seconds)


def at(hour: int, minute: int) -> int:
    return (hour * 60 + minute) * MINUTE


def by_time() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


class Starts(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Iterator[Click]:
        yield key, context.window().start


@pytest.mark.spec("004/AX-012")
@pytest.mark.parametrize(
    ("windows", "belongs"),
    [
        (TumblingEventTimeWindows.of(Duration.of_minutes(5)), at(11, 50)),
        (TumblingProcessingTimeWindows.of(Duration.of_minutes(5)), at(12, 5)),
    ],
    ids=["event time", "clock"],
)
def test_a_payment_without_signal_belongs_to_when_it_was_made_or_to_when_it_came(
    anywhere: StreamExecutionEnvironment, windows: WindowAssigner, belongs: int
) -> None:
    anywhere.use_clock(Stopped(at(12, 5)))
    paid = anywhere.from_source(CollectionSource([("garage", at(11, 50))]), by_time())

    counted = (
        paid.key_by(lambda value: value[0]).window(windows).trigger(CountTrigger.of(1)).process(Starts())
    )

    assert list(counted.execute_and_collect()) == [("garage", belongs)]


class EveryRecord(WatermarkGenerator):
    """Makes a batch of each record."""

    asked = "record"
    newest = -1

    def on_event(self, value: Any, timestamp: int) -> None:
        self.newest += 1

    def watermark(self) -> int:
        return self.newest


@pytest.mark.spec("004/AX-013")
@pytest.mark.parametrize(
    ("delay_minutes", "seen"), [(1, [("A", at(11, 2)), ("B", at(11, 3))]), (0, [("B", at(11, 3))])]
)
def test_clicks_in_reverse_are_in_their_windows_with_a_delay_of_a_minute(
    anywhere: StreamExecutionEnvironment, delay_minutes: int, seen: list[Click]
) -> None:
    clicks = anywhere.from_collection([("B", at(11, 3)), ("A", at(11, 2))]).set_parallelism(1)
    single = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(lambda value, _: 0)
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(delay_minutes))
    timed = (
        clicks.assign_timestamps_and_watermarks(single)
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(late.with_timestamp_assigner(lambda value, _: value[1]))
        .set_parallelism(1)
    )

    windows = timed.key_by(lambda value: value[0]).window(TumblingEventTimeWindows.of(Duration.of_minutes(1)))

    assert sorted(windows.process(Starts()).execute_and_collect()) == seen


class Alarm(KeyedProcessFunction):
    """A timer at the time it is given; says in a directory what happened, and when."""

    def __init__(self, due: int, directory: Path) -> None:
        self.due, self.directory = due, directory

    def process_element(self, value: str, ctx: Any) -> None:
        # Records keep coming; the timer that is kept must not be made anew.
        if not (self.directory / "set").exists():
            ctx.timer_service().register_processing_time_timer(self.due)
            (self.directory / "set").touch()

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        now = ctx.timer_service().current_processing_time()
        (self.directory / "writing").write_text(f"{ctx.get_current_key()} {timestamp} {now}")
        (self.directory / "writing").rename(self.directory / "fired")


def run_until(env: StreamExecutionEnvironment, now_ms: int, directory: Path, witness: str) -> None:
    """Run the alarm from where it was, until a file is there; then stop with a checkpoint."""
    env.use_clock(Stopped(now_ms))
    source = GeneratorSource(lambda n: "a", count=None)
    keyed = env.from_source(source).uid("in").key_by(lambda value: value)
    keyed.process(Alarm(1_000_000, directory)).uid("alarm").print().uid("out")
    client = env.execute_async("alarm")
    until((directory / witness).exists, job=client)
    client.stop().result(timeout=60)


@pytest.mark.spec("002/AX-33")
def test_a_timer_by_the_clock_that_was_due_while_the_job_was_down_fires_at_once(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    due = 1_000_000

    run_until(anywhere, due - 1, tmp_path, "set")
    assert not (tmp_path / "fired").exists()
    run_until(anywhere, due + 60_000, tmp_path, "fired")

    assert (tmp_path / "fired").read_text() == f"a {due} {due + 60_000}"
