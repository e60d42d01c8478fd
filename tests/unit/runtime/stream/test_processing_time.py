"""Windows and timers by the clock, on every executor: the clock stands still until the records say how late it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Duration
from tidegate.datastream import (
    DataStream,
    ProcessWindowFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import (
    ContinuousProcessingTimeTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    Trigger,
    TriggerResult,
    TumblingProcessingTimeWindows,
)

Env = StreamExecutionEnvironment
Item = tuple[int, str, int]
"""When it comes, its key, its value."""

seconds, minutes = Duration.of_seconds, Duration.of_minutes


class SharedClock:
    """Shows what stands in a file, which all workers see."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.move(0)

    def now_ms(self) -> int:
        return int(self.path.read_text())

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def sleep(self, seconds: float) -> None:
        SYSTEM_CLOCK.sleep(seconds)

    def move(self, now_ms: int) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(str(now_ms))
        new.replace(self.path)


class InTurn(SourceFunction):
    """Moves the clock to the time of each item, and waits until all windows have it before the next one."""

    def __init__(self, clock: SharedClock, taken: Path, items: list[Item], windows: int) -> None:
        self.clock, self.taken, self.items, self.windows = clock, taken, items, windows

    def run(self, ctx: Any) -> None:
        taken = os.open(self.taken, os.O_RDWR)
        for item in self.items:
            self.clock.move(item[0])
            ctx.collect(item)
            for _ in range(self.windows):
                os.read(taken, 1)
        os.close(taken)


@dataclass(frozen=True)
class Told(Trigger):
    """Does what another trigger does, and tells the source that a window has a record."""

    trigger: Trigger
    taken: str

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        result = self.trigger.on_element(element, timestamp, window, ctx)
        with Path(self.taken).open("wb", buffering=0) as taken:
            taken.write(b".")
        return result

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return self.trigger.on_processing_time(time, window, ctx)

    def can_merge(self) -> bool:
        return self.trigger.can_merge()

    def on_merge(self, window: Any, ctx: Any) -> None:
        self.trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: Any) -> None:
        self.trigger.clear(window, ctx)


class Stepped:
    """A stream of items that come when they say, and what tells that a window has them."""

    def __init__(self, env: Env, directory: Path) -> None:
        self.clock = SharedClock(directory / "clock")
        self.taken = directory / "taken"
        os.mkfifo(self.taken)
        self.env = env.use_clock(self.clock).set_buffer_timeout(0)

    def items(self, *items: Item, windows: int = 1) -> DataStream:
        return self.env.add_source(InTurn(self.clock, self.taken, list(items), windows))

    def told(self, trigger: Trigger) -> Told:
        return Told(trigger, str(self.taken))


@pytest.fixture
def stepped(anywhere: Env, tmp_path: Path) -> Stepped:
    return Stepped(anywhere, tmp_path)


class Described(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Item]) -> Iterator[Any]:
        window, values = context.window(), [value for _, _, value in elements]
        yield (window.start, window.end), values, context.current_processing_time()


def by_user(item: Item) -> str:
    return item[1]


def bought(stream: DataStream) -> list[Any]:
    """User and sum of each window that fired."""
    return sorted((user, count) for _, user, count in stream.execute_and_collect())


@pytest.mark.spec("000/EX-13")
def test_purchases_are_summed_per_minute_of_the_clock(stepped: Stepped) -> None:
    purchases = stepped.items(
        (1_000, "ada", 2), (30_000, "bob", 5), (59_999, "ada", 3), (60_000, "ada", 7), (60_000, "bob", 0)
    )
    windows = purchases.key_by(by_user).time_window(minutes(1)).trigger(stepped.told(ProcessingTimeTrigger()))

    assert bought(windows.sum(2)) == [("ada", 5), ("bob", 5)]


@pytest.mark.spec("000/EX-17")
def test_purchases_are_summed_over_sessions_that_thirty_seconds_without_one_end(stepped: Stepped) -> None:
    purchases = stepped.items(
        (0, "ada", 1),
        (29_000, "ada", 2),
        (29_000, "bob", 8),
        (58_999, "bob", 9),
        (59_001, "ada", 4),
        (90_000, "ada", 0),
        (90_000, "bob", 0),
    )
    sessions = ProcessingTimeSessionWindows.with_gap(seconds(30))
    windows = purchases.key_by(by_user).window(sessions).trigger(stepped.told(ProcessingTimeTrigger()))

    assert bought(windows.sum(2)) == [("ada", 3), ("ada", 4), ("bob", 17)]


@pytest.mark.spec("000/EX-19")
def test_a_record_of_the_first_five_seconds_is_in_two_windows_that_end_one_after_another(
    stepped: Stepped,
) -> None:
    items = stepped.items((2_000, "k", 1), (5_000, "k", 2), (10_000, "k", 3), windows=2)
    sliding = SlidingProcessingTimeWindows.of(seconds(10), seconds(5))
    windows = items.key_by(by_user).window(sliding).trigger(stepped.told(ProcessingTimeTrigger()))

    first, second = list(windows.process(Described()).execute_and_collect())
    assert first == ((-5_000, 5_000), [1], 5_000)
    assert second == ((0, 10_000), [1, 2], 10_000)


def test_a_window_of_the_clock_can_fire_continuously_and_be_purged(stepped: Stepped) -> None:
    items = stepped.items((1_000, "k", 1), (11_000, "k", 2), (25_000, "k", 4), (60_000, "k", 8))
    trigger = stepped.told(PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(seconds(10))))
    windows = items.key_by(by_user).window(TumblingProcessingTimeWindows.of(minutes(1))).trigger(trigger)

    assert [count for _, count in bought(windows.sum(2))] == [1, 2, 4]


def test_a_session_of_the_clock_may_say_by_each_record_how_long_it_waits(stepped: Stepped) -> None:
    items = stepped.items((0, "k", 10), (9, "k", 6), (14, "k", 1), (16, "k", 3), (99, "k", 1))
    sessions = ProcessingTimeSessionWindows.with_dynamic_gap(lambda item: item[2])
    windows = items.key_by(by_user).window(sessions).trigger(stepped.told(ProcessingTimeTrigger()))

    found = [values for _, values, _ in windows.process(Described()).execute_and_collect()]
    assert found == [[10, 6, 1], [3]]
