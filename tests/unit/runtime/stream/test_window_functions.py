"""What window functions, triggers and evictors may use, on every executor: state of all sorts, gaps, times, merging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.written import listed, ran, stream
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CheckpointedFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    state,
)
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
)
from tidegate.errors import JobFailedError

Env = StreamExecutionEnvironment

seconds, millis = Duration.of_seconds, Duration.of_millis
FIVE_SECONDS = TumblingEventTimeWindows.of(seconds(5))


class Longest(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return max(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_1: int, acc_2: int) -> int:
        return max(acc_1, acc_2)


def total(a: int, b: int) -> int:
    return a + b


class InEveryState(ProcessWindowFunction):
    """Keeps what it saw in each kind of state, of the window and of the key."""

    def open(self, runtime_context: Any) -> None:
        self.opened = True

    def process(self, key: str, context: Any, elements: Iterable[int]) -> Iterator[Any]:
        assert self.opened
        newest = list(elements)[-1]
        yield tuple(self._added(store, newest) for store in (context.window_state(), context.global_state()))

    def _added(self, store: Any, value: int) -> tuple[Any, ...]:
        count = store.get_state(ValueStateDescriptor("count", default=0))
        count.update(count.value() + 1)
        seen, times = (
            store.get_list_state(ListStateDescriptor("seen")),
            store.get_map_state(MapStateDescriptor("times")),
        )
        seen.add(value)
        times.put(value, (times.get(value) or 0) + 1)
        summed = store.get_reducing_state(ReducingStateDescriptor("sum", total))
        longest = store.get_aggregating_state(AggregatingStateDescriptor("longest", Longest()))
        for folded in (summed, longest):
            folded.add(value)
        return count.value(), list(seen.get()), dict(times.items()), summed.get(), longest.get()


def test_a_function_has_every_kind_of_state_per_window_and_per_key(anywhere: Env) -> None:
    items = stream(anywhere, (3, 1_000), (2, 6_000), 4_999, (1, 2_000), 9_999, 30_000)
    fired = ran(items.window(FIVE_SECONDS).allowed_lateness(60_000).process(InEveryState()))

    assert [of_window for of_window, _ in fired] == [
        (1, [3], {3: 1}, 3, 3),
        (2, [3, 1], {3: 1, 1: 1}, 4, 3),
        (1, [2], {2: 1}, 2, 2),
    ]
    assert fired[-1][1] == (3, [3, 1, 2], {3: 1, 1: 1, 2: 1}, 6, 3)


class Declared(ProcessWindowFunction):
    """Numbers the firings of a key in state that is an attribute."""

    fired = state.Value(int, default=0)

    def process(self, key: str, context: Any, elements: Iterable[int]) -> Iterator[Any]:
        self.fired.update(self.fired.value() + 1)
        yield self.fired.value(), list(elements)


def test_state_may_be_declared_on_a_window_function(anywhere: Env) -> None:
    items = stream(anywhere, (1, 1_000), (2, 2_000), (3, 6_000))
    assert ran(items.window(FIVE_SECONDS).process(Declared())) == [(1, [1, 2]), (2, [3])]

    items = stream(anywhere, (1, 1_000), (2, 2_000), (3, 6_000))
    assert ran(items.window(FIVE_SECONDS).reduce(total, Declared())) == [(1, [3]), (2, [3])]


class Checkpointed(ProcessWindowFunction, CheckpointedFunction):
    """Counts its firings in a subtask, whatever the key."""

    def initialize_state(self, context: Any) -> None:
        self.stored = context.get_operator_state_store().get_list_state(ListStateDescriptor("fired"))
        self.fired = sum(self.stored.get())

    def snapshot_state(self, context: Any) -> None:
        self.stored.update([self.fired])

    def process(self, key: str, context: Any, elements: Iterable[int]) -> Iterator[Any]:
        self.fired += 1
        yield self.fired, len(list(elements))


class FailOnce(MapFunction):
    def __init__(self, failed: Path) -> None:
        self.failed = failed

    def map(self, value: int) -> int:
        if value == 1_200 and not self.failed.exists():
            self.failed.touch()
            raise ValueError("once")
        return value


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_operator_state_of_a_window_function_survives_a_failure(tmp_path: Path, target: str) -> None:
    env = Env.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    ).enable_checkpointing(30)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)
    source = GeneratorSource(int, 1_500, rate_per_second=3_000)
    numbers = env.from_source(source, times, "numbers").set_parallelism(1)
    failing = numbers.map(FailOnce(tmp_path / "failed")).set_parallelism(1)
    windows = failing.key_by(lambda number: "k").window(TumblingEventTimeWindows.of(millis(100)))

    assert sorted(windows.process(Checkpointed()).execute_and_collect()) == [(n, 100) for n in range(1, 16)]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: int) -> int:
        return element


@pytest.mark.parametrize("extractor", [Gap(), lambda element: element], ids=["class", "function"])
def test_each_record_may_say_how_long_its_session_waits(anywhere: Env, extractor: Any) -> None:
    items = stream(anywhere, (10, 0), (3, 9), (4, 30), (20, 12))
    sessions = EventTimeSessionWindows.with_dynamic_gap(extractor)
    bounds = items.window(sessions).apply(lambda key, window, values: [(window.start, window.end, values)])

    assert ran(bounds) == [(0, 34, [10, 3, 4, 20])]


def test_a_gap_that_is_none_is_refused(anywhere: Env) -> None:
    sessions = EventTimeSessionWindows.with_dynamic_gap(lambda element: 0)

    with pytest.raises(
        JobFailedError, match="the session gap of record 1 is 0; expected milliseconds as int"
    ):
        ran(stream(anywhere, (1, 0)).window(sessions).reduce(total))


def test_accumulators_of_sessions_that_meet_are_merged(anywhere: Env) -> None:
    items = stream(anywhere, (5, 0), (9, 15), (1, 8), (2, 100))
    windows = items.window(EventTimeSessionWindows.with_gap(millis(10)))

    assert ran(windows.aggregate(Longest(), lambda key, window, results: [(window.end, *results)])) == [
        (25, 9),
        (110, 2),
    ]


def test_a_continuous_trigger_fires_within_the_window_and_at_its_end(anywhere: Env) -> None:
    items = stream(anywhere, (1, 500), 2_000, (2, 2_500), 3_000, 5_000)
    windows = items.window(FIVE_SECONDS).trigger(ContinuousEventTimeTrigger.of(seconds(1)))

    assert ran(windows.apply(listed)) == [[1], [1], [1, 2], [1, 2], [1, 2]]


def test_a_delta_trigger_fires_when_a_record_is_far_from_the_one_that_fired_before(anywhere: Env) -> None:
    items = stream(anywhere, *((value, 0) for value in (0, 3, 6, 8, 12, 13)))
    far = DeltaTrigger.of(5, lambda last, value: abs(value - last))

    assert ran(items.window(GlobalWindows.create()).trigger(far).apply(listed)) == [
        [0, 3, 6],
        [0, 3, 6, 8, 12],
    ]


def test_an_evictor_may_come_after_the_function(anywhere: Env) -> None:
    items = stream(anywhere, *((value, 0) for value in range(1, 7)))
    windows = items.window(GlobalWindows.create()).trigger(CountTrigger.of(2))

    assert ran(windows.evictor(CountEvictor.of(1, True)).apply(listed)) == [[1, 2], [2, 3, 4], [4, 5, 6]]
