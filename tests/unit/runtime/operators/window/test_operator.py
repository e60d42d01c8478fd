"""A window operator by itself: when windows fire, what they hold, when they are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.common import Duration
from tidegate.datastream import OutputTag
from tidegate.datastream.window import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidegate.elements import MAX_WATERMARK
from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.operators.window.folding import Reducing
from tidegate.runtime.operators.window.windowing import Windowing
from tidegate.runtime.stream.windows import ProcessWindowFunction, WindowContext

Open = Callable[..., Any]

FIVE_SECONDS = TumblingEventTimeWindows.of(Duration.of_seconds(5))
MINUTE = Duration.of_minutes(1)
TOTAL = Reducing(lambda a, b: a + b)


def windowing(assigner: WindowAssigner, **fields: Any) -> Windowing:
    given = {"trigger": assigner.get_default_trigger(None), "folding": None, "function": listed, **fields}
    return Windowing(assigner, **given)


def listed(key: Any, window: Any, elements: list[Any]) -> list[list[Any]]:
    """One result per firing: the elements."""
    return [elements]


def summed(assigner: WindowAssigner, **fields: Any) -> Windowing:
    return windowing(assigner, folding=TOTAL, function=None, **fields)


def test_results_carry_the_last_moment_of_their_window(bench: Open) -> None:
    one = bench(summed(FIVE_SECONDS))
    one.put(1, at=1_000)
    one.put(2, at=4_999)
    one.put(4, at=5_000)

    assert one.watermark(4_998) == []
    assert one.watermark(4_999) == [(3, 4_999)]
    assert one.watermark(MAX_WATERMARK) == [(4, 9_999)]


@pytest.mark.parametrize(("lateness", "gone"), [(0, 4_999), (1_000, 5_999)], ids=["none", "a second"])
def test_a_window_ending_at_5000_is_gone_at_its_end_plus_lateness(
    bench: Open, lateness: int, gone: int
) -> None:
    one = bench(windowing(FIVE_SECONDS, lateness=lateness))
    one.put("a", at=1_000)

    one.watermark(gone - 1)
    assert one.stored() != (0, 0)
    one.watermark(gone)
    assert one.stored() == (0, 0)


def test_what_comes_too_late_is_dropped_and_counted_or_goes_to_its_side_output(bench: Open) -> None:
    dropping, late = bench(windowing(FIVE_SECONDS)), OutputTag("late")
    telling = bench(windowing(FIVE_SECONDS, late_tag=late))
    for one in (dropping, telling):
        one.watermark(5_000)

    assert dropping.put("a", at=3_000) == []
    assert dropping.operator.late_dropped.get_count() == 1
    assert telling.put("a", at=3_000) == [((late, "a"), 3_000)]
    assert telling.operator.late_dropped.get_count() == 0
    assert telling.stored() == (0, 0)


def test_sliding_windows_of_processing_time_fire_and_are_released_one_after_another(bench: Open) -> None:
    function = Described()
    one = bench(
        windowing(
            SlidingProcessingTimeWindows.of(Duration.of_seconds(10), Duration.of_seconds(5)),
            function=function,
        ),
        now_ms=2_000,
    )
    one.put("a")
    assert one.stored() == (2, 2)

    assert one.operator.next_processing_time() == 5_000
    assert one.advance(4_999) == []
    assert one.advance(5_000) == [((TimeWindow(-5_000, 5_000), ["a"]), 4_999)]
    assert one.stored() == (1, 1)
    assert one.advance(10_000) == [((TimeWindow(0, 10_000), ["a"]), 9_999)]
    assert one.stored() == (0, 0)


def test_purchases_are_summed_over_sessions_of_processing_time(bench: Open) -> None:
    one = bench(summed(ProcessingTimeSessionWindows.with_gap(Duration.of_seconds(30))))
    one.put(1, key="ada")
    one.advance(29_000)
    one.put(2, key="ada")
    one.put(8, key="bob")

    assert one.advance(58_999) == []
    assert sorted(one.advance(59_000)) == [(3, 58_999), (8, 58_999)]
    one.put(4, key="ada")
    assert one.advance(200_000) == [(4, 88_999)]
    assert one.stored() == (0, 0)


@pytest.mark.parametrize("assigner", [TumblingProcessingTimeWindows, TumblingEventTimeWindows])
def test_purchases_are_summed_per_minute(bench: Open, assigner: Any) -> None:
    one = bench(summed(assigner.of(MINUTE)))
    results = []
    for moment, key, count in ((1_000, "ada", 2), (30_000, "bob", 5), (59_999, "ada", 3), (60_000, "ada", 7)):
        results += [*one.advance(moment), *one.watermark(moment - 1)]
        one.put(count, at=moment, key=key)

    results += [*one.advance(120_000), *one.watermark(MAX_WATERMARK)]
    assert sorted(results[:2]) == [(5, 59_999), (5, 59_999)]
    assert results[2:] == [(7, 119_999)]


def test_results_of_a_window_without_an_end_have_the_time_of_the_record_that_made_it_fire(
    bench: Open,
) -> None:
    counted = bench(windowing(GlobalWindows(), trigger=CountTrigger.of(2)))

    assert [counted.put(n, at=n * 10) for n in (1, 2, 3, 4)] == [[], [([1, 2], 20)], [], [([1, 2, 3, 4], 40)]]


def test_fire_keeps_the_contents_purge_drops_them_and_the_state_of_the_trigger_stays(bench: Open) -> None:
    keeping = bench(windowing(GlobalWindows(), trigger=CountTrigger.of(2)))
    assert [keeping.put(n) for n in (1, 2, 3, 4)] == [
        [],
        [([1, 2], MAX_WATERMARK)],
        [],
        [([1, 2, 3, 4], MAX_WATERMARK)],
    ]

    purging = bench(windowing(GlobalWindows(), trigger=PurgingTrigger.of(CountTrigger.of(2))))
    assert [purging.put(n) for n in (1, 2, 3, 4)] == [
        [],
        [([1, 2], MAX_WATERMARK)],
        [],
        [([3, 4], MAX_WATERMARK)],
    ]

    silent = bench(windowing(GlobalWindows(), trigger=PurgeSecondFireFourth()))
    assert [silent.put(n) for n in (1, 2, 3, 4)] == [[], [], [], [([3, 4], MAX_WATERMARK)]]


@pytest.mark.spec("000/STATE-13", "000/STATE-18")
def test_a_window_with_a_sum_stores_one_value_and_with_an_evictor_all_records(bench: Open) -> None:
    def content(one: Any) -> Any:
        for number in range(1, 6):
            one.put(number)
        one.store.bind_in("k", b"\0")
        return one.operator._kept.content()

    folding, never = TOTAL, CountTrigger.of(99)
    assert content(bench(windowing(GlobalWindows(), trigger=never, folding=folding))) == 15
    evicting = bench(windowing(GlobalWindows(), trigger=never, folding=folding, evictor=CountEvictor.of(9)))
    assert [value for value, _ in content(evicting)] == [1, 2, 3, 4, 5]


@pytest.mark.spec("000/STATE-19")
def test_a_session_that_bridges_two_takes_their_contents_timers_and_counts(bench: Open) -> None:
    one = bench(windowing(EventTimeSessionWindows.with_gap(Duration.of_millis(10))))
    one.put("a", at=0)
    one.put("c", at=15)
    one.put("b", at=8)

    assert one.watermark(23) == []
    assert one.stored() == (2, 1)
    assert one.watermark(24) == [(["a", "c", "b"], 24)]
    assert one.stored() == (0, 0)

    counting = bench(
        windowing(EventTimeSessionWindows.with_gap(Duration.of_millis(10)), trigger=CountTrigger.of(3))
    )
    assert [counting.put(n, at=at) for n, at in ((1, 0), (2, 15))] == [[], []]
    assert counting.put(3, at=8) == [([1, 2, 3], 24)]


@pytest.mark.spec("000/STATE-14")
def test_which_window_keeps_the_contents_of_merged_ones_survives_a_failure(bench: Open) -> None:
    one = bench(windowing(EventTimeSessionWindows.with_gap(Duration.of_millis(10))))
    for name, at in (("a", 0), ("b", 12), ("c", 24)):
        one.put(name, at=at)
    one.put("d", at=9)
    one.put("e", at=20)
    one.save()
    one.put("lost", at=26)
    one.crash()

    one.put("f", at=30)

    assert one.watermark(100) == [(["a", "b", "d", "c", "e", "f"], 39)]
    assert one.stored() == (0, 0)


def test_windows_that_count_are_numbered_per_key(bench: Open) -> None:
    tumbling = bench(
        windowing(
            CountTumblingWindowAssigner.of(2),
            trigger=CountTumblingWindowAssigner.of(2).get_default_trigger(None),
        )
    )
    assert [tumbling.put(n, key=key) for n, key in ((1, "a"), (2, "b"), (3, "a"), (4, "a"))] == [
        [],
        [],
        [([1, 3], MAX_WATERMARK)],
        [],
    ]
    sliding = bench(windowing(CountSlidingWindowAssigner.of(3, 2)))
    fired = [result for n in range(1, 8) for result, _ in sliding.put(n)]
    assert fired == [[1, 2, 3], [3, 4, 5], [5, 6, 7]]


@pytest.mark.spec("000/STATE-16")
def test_a_function_has_state_of_its_window_and_of_its_key(bench: Open) -> None:
    one = bench(windowing(FIVE_SECONDS, lateness=5_000, function=Firings()))
    one.put("a", at=1_000)
    one.put("b", at=6_000)

    assert one.watermark(4_999) == [((0, 1, 1), 4_999)]
    one.save()
    one.crash()
    one.watermark(4_999)
    assert one.put("c", at=2_000) == [((0, 2, 2), 4_999)]
    assert one.watermark(10_000) == [((5_000, 1, 3), 9_999)]
    assert one.stored() == (2, 1)
    one.watermark(MAX_WATERMARK)
    assert one.stored() == (1, 0)


def test_sessions_have_no_state_per_window(bench: Open) -> None:
    one = bench(windowing(EventTimeSessionWindows.with_gap(Duration.of_millis(10)), function=Firings()))
    one.put("a", at=0)

    with pytest.raises(ConfigError, match="session windows have no state per window, because windows merge"):
        one.watermark(100)


def test_a_record_without_a_time_is_refused_where_event_time_decides(bench: Open) -> None:
    with pytest.raises(RecordError, match="record 'a' has no timestamp but event time decides its window"):
        bench(windowing(FIVE_SECONDS)).put("a")


class Described(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window(), list(elements)


class Firings(ProcessWindowFunction):
    """Counts how often a window fired, and all windows of its key."""

    count = ValueStateDescriptor("count", default=0)

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        of_window, of_key = (
            context.window_state().get_state(self.count),
            context.global_state().get_state(self.count),
        )
        of_window.update(of_window.value() + 1)
        of_key.update(of_key.value() + 1)
        yield context.window().start, of_window.value(), of_key.value()

    def clear(self, context: WindowContext) -> None:
        context.window_state().get_state(self.count).clear()


class PurgeSecondFireFourth(Trigger):
    """Counts in its state, which a purge leaves alone."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        count = ctx.get_partitioned_state(ValueStateDescriptor("seen", default=0))
        count.update(count.value() + 1)
        return {2: TriggerResult.PURGE, 4: TriggerResult.FIRE_AND_PURGE}.get(
            count.value(), TriggerResult.CONTINUE
        )
