"""When windows fire, trigger by trigger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.backends.keyed.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from tidegate.common import Duration
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidegate.elements import MAX_WATERMARK
from tidegate.errors import ConfigError
from tidegate.runtime.operators.window.windowing import Windowing

Open = Callable[..., Any]

TEN = Duration.of_millis(10)
EVENT_TIME, CLOCK = TumblingEventTimeWindows.of(TEN), TumblingProcessingTimeWindows.of(TEN)


def firing(assigner: WindowAssigner, trigger: Trigger | None = None, lateness: int = 0) -> Windowing:
    chosen = trigger or assigner.get_default_trigger(None)
    return Windowing(assigner, chosen, None, lambda key, window, elements: [elements], lateness=lateness)


def anything(value: Any) -> Any:
    """What a program without type checks may pass."""
    return value


def results(emitted: list[tuple[Any, int]]) -> list[Any]:
    return [value for value, _ in emitted]


def test_results_say_whether_to_fire_and_whether_to_purge() -> None:
    assert [(result.is_fire(), result.is_purge()) for result in TriggerResult] == [
        (False, False),
        (True, True),
        (True, False),
        (False, True),
    ]


def test_event_time_fires_at_the_end_and_for_each_late_record(bench: Open) -> None:
    one = bench(firing(EVENT_TIME, EventTimeTrigger.create(), lateness=5))
    one.put(1, at=3)

    assert results(one.watermark(9)) == [[1]]
    assert results(one.put(2, at=4)) == [[1, 2]]
    assert results(one.watermark(50)) == []


def test_the_clock_fires_once_at_the_end(bench: Open) -> None:
    one = bench(firing(CLOCK, ProcessingTimeTrigger.create()))
    one.put(1)

    assert results(one.advance(10)) == [[1]]
    assert results(one.advance(20)) == []


def test_continuous_event_time_fires_at_multiples_and_at_the_end(bench: Open) -> None:
    one = bench(firing(EVENT_TIME, ContinuousEventTimeTrigger.of(Duration.of_millis(4)), lateness=10))
    one.put(1, at=1)

    assert [results(one.watermark(time)) for time in (3, 4, 7)] == [[], [[1]], []]
    one.put(2, at=5)
    assert [results(one.watermark(time)) for time in (8, 9)] == [[[1, 2]], [[1, 2]]]
    assert results(one.put(3, at=6)) == [[1, 2, 3]]
    one.watermark(MAX_WATERMARK)
    assert one.stored() == (0, 0)


def test_continuous_clock_fires_at_multiples_and_at_the_end(bench: Open) -> None:
    one = bench(firing(CLOCK, ContinuousProcessingTimeTrigger.of(Duration.of_millis(4))), now_ms=1)
    one.put(1)

    assert [results(one.advance(time)) for time in (4, 5, 9, 10, 30)] == [[], [[1]], [[1]], [[1]], []]
    assert one.stored() == (0, 0)


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        (EventTimeSessionWindows.with_gap(TEN), ContinuousEventTimeTrigger.of(Duration.of_millis(100))),
        (
            ProcessingTimeSessionWindows.with_gap(TEN),
            ContinuousProcessingTimeTrigger.of(Duration.of_millis(100)),
        ),
    ],
    ids=["event time", "clock"],
)
def test_continuous_triggers_go_on_in_merged_sessions(
    bench: Open, assigner: WindowAssigner, trigger: Trigger
) -> None:
    one = bench(firing(assigner, trigger))
    for time in (0, 5, 12):
        one.advance(time)
        one.put(time, at=time)

    fired = [*one.advance(22), *one.watermark(21)]
    assert fired == [([0, 5, 12], 21)]
    assert one.stored() == (0, 0)


def test_a_processing_time_session_that_grows_fires_at_its_new_end(bench: Open) -> None:
    one = bench(firing(ProcessingTimeSessionWindows.with_gap(TEN)))
    one.put("a")
    one.advance(8)
    one.put("b")

    assert results(one.advance(10)) == []
    assert results(one.advance(18)) == [["a", "b"]]


def test_a_delta_fires_where_a_record_is_far_from_the_last_firing(bench: Open) -> None:
    one = bench(firing(GlobalWindows(), DeltaTrigger.of(3, lambda last, record: abs(record - last))))

    assert [results(one.put(n)) for n in (1, 4, 5, 7, 9)] == [[], [], [[1, 4, 5]], [], [[1, 4, 5, 7, 9]]]


def test_never_stays_silent_and_purging_follows_its_trigger(bench: Open) -> None:
    one = bench(firing(GlobalWindows(), NeverTrigger()))
    assert [one.put(n) for n in range(5)] + [one.watermark(MAX_WATERMARK)] == [[]] * 6

    purging = bench(firing(EVENT_TIME, PurgingTrigger.of(EventTimeTrigger.create()), lateness=10))
    purging.put(1, at=1)
    assert results(purging.watermark(9)) == [[1]]
    assert results(purging.put(2, at=2)) == [[2]]
    by_clock = bench(firing(CLOCK, PurgingTrigger.of(ProcessingTimeTrigger())))
    by_clock.put(1)
    assert results(by_clock.advance(10)) == [[1]]
    merging = PurgingTrigger.of(EventTimeTrigger())
    sessions = bench(firing(EventTimeSessionWindows.with_gap(TEN), merging))
    for at in (0, 5):
        sessions.put(at, at=at)
    assert results(sessions.watermark(50)) == [[0, 5]]


class Merging(Trigger):
    """Fires at the third record, counted in a state that merges by itself."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        seen = ctx.get_partitioned_state(self.descriptor)
        seen.add(1)
        count = seen.get() if isinstance(self.descriptor, ReducingStateDescriptor) else len(list(seen.get()))
        return TriggerResult.FIRE if count == 3 else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.descriptor)

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.descriptor).clear()


@pytest.mark.spec("000/STATE-19")
@pytest.mark.parametrize(
    "descriptor",
    [ReducingStateDescriptor("seen", lambda a, b: a + b), ListStateDescriptor("seen")],
    ids=["reducing", "list"],
)
def test_a_trigger_of_ones_own_merges_its_state(bench: Open, descriptor: StateDescriptor) -> None:
    one = bench(firing(EventTimeSessionWindows.with_gap(TEN), Merging(descriptor)))

    assert [results(one.put(n, at=at)) for n, at in ((1, 0), (2, 15), (3, 8))] == [[], [], [[1, 2, 3]]]


def test_a_state_that_cannot_say_how_it_merges_is_refused(bench: Open) -> None:
    class Mapped(Merging):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            return TriggerResult.CONTINUE

    one = bench(firing(EventTimeSessionWindows.with_gap(TEN), Mapped(MapStateDescriptor("seen"))))
    one.put(1, at=0)
    with pytest.raises(
        ConfigError, match="state 'seen' cannot be merged; got a MapStateDescriptor; use a Reduc"
    ):
        one.put(2, at=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CountTrigger.of(0),
            "a count trigger fires every 0 records; expected an integer of at least 1",
        ),
        (lambda: PurgingTrigger.of(anything(5)), "a purging trigger takes a Trigger; got int"),
        (
            lambda: ContinuousEventTimeTrigger.of(anything(5)),
            "the interval of a trigger is 5; expected a Duration",
        ),
        (
            lambda: ContinuousProcessingTimeTrigger.of(Duration.of_millis(0)),
            "the interval of a trigger is 0 ms; expected at least 1",
        ),
    ],
)
def test_triggers_that_cannot_be_are_refused(make: Callable[[], Trigger], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
