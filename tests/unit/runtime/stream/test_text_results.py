"""A function that returns a text where it should yield records is refused: its characters are not the records."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoProcessFunction,
    DataStream,
    FlatJoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.errors import JobFailedError

MODEL = MapStateDescriptor("model", Types.STRING(), Types.STRING())


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return value


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return value


class Timed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: Any, ctx: Any) -> Any:
        return "one two"


class Awaited(KeyedProcessFunction):
    async def process_element(self, value: Any, ctx: Any) -> Any:
        return value


class AwaitedTimer(KeyedProcessFunction):
    async def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(5)

    async def on_timer(self, timestamp: Any, ctx: Any) -> Any:
        return "one two"


class Asked(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        return value


class FlatOfTwo(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return []

    def flat_map2(self, value: Any) -> Any:
        return value


class OfTwo(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return None


class KeyedOfTwo(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return None

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return value


class Told(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None


class KeyedTold(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return None

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return value


class OfWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return "one two"


class OfAllWindow(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Any:
        return "one two"


class Applied(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return "one two"


class Grouped(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        return "one two"


class Joined(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first


def later(texts: DataStream) -> Any:
    return texts.key_by(len).window(TumblingEventTimeWindows.of(Time.seconds(1)))


def both(texts: DataStream, method: str) -> Any:
    pair = getattr(texts, method)(texts).where(len).equal_to(len)
    return pair.window(TumblingEventTimeWindows.of(Time.seconds(1)))


STEPS: dict[str, tuple[Callable[[DataStream], DataStream], str]] = {
    "flat_map": (lambda texts: texts.flat_map(lambda text: text), "<lambda>"),
    "process": (lambda texts: texts.process(Plain()), "Plain.process_element"),
    "keyed process": (lambda texts: texts.key_by(len).process(Keyed()), "Keyed.process_element"),
    "timer": (lambda texts: texts.key_by(len).process(Timed()), "Timed.on_timer"),
    "async process": (lambda texts: texts.key_by(len).process(Awaited()), "Awaited.process_element"),
    "async timer": (lambda texts: texts.key_by(len).process(AwaitedTimer()), "AwaitedTimer.on_timer"),
    "request": (
        lambda texts: AsyncDataStream.unordered_wait(texts, Asked(), Time.seconds(60)),
        "Asked.async_invoke",
    ),
    "connected flat_map": (
        lambda texts: texts.connect(texts).flat_map(FlatOfTwo()),
        "FlatOfTwo.flat_map2",
    ),
    "connected process": (lambda texts: texts.connect(texts).process(OfTwo()), "OfTwo.process_element1"),
    "connected keyed process": (
        lambda texts: texts.connect(texts).key_by(len, len).process(KeyedOfTwo()),
        "KeyedOfTwo.process_element2",
    ),
    "broadcast": (
        lambda texts: texts.connect(texts.broadcast(MODEL)).process(Told()),
        "Told.process_element",
    ),
    "keyed broadcast": (
        lambda texts: texts.key_by(len).connect(texts.broadcast(MODEL)).process(KeyedTold()),
        "KeyedTold.process_broadcast_element",
    ),
    "window process": (lambda texts: later(texts).process(OfWindow()), "OfWindow.process"),
    "window apply": (lambda texts: later(texts).apply(Applied()), "Applied.apply"),
    "window callable": (lambda texts: later(texts).apply(lambda key, window, found: "one two"), "<lambda>"),
    "window behind a reduction": (
        lambda texts: later(texts).reduce(lambda one, other: one, OfWindow()),
        "OfWindow.process",
    ),
    "window of all": (
        lambda texts: texts.window_all(TumblingEventTimeWindows.of(Time.seconds(1))).process(OfAllWindow()),
        "OfAllWindow.process",
    ),
    "co_group": (lambda texts: both(texts, "co_group").apply(Grouped()), "Grouped.co_group"),
    "flat join": (lambda texts: both(texts, "join").apply(Joined()), "Joined.join"),
}


@pytest.mark.parametrize(("step", "function"), STEPS.values(), ids=STEPS)
def test_a_text_instead_of_records_is_refused_with_step_and_function_and_the_way_on(
    anywhere: StreamExecutionEnvironment, step: Callable[[DataStream], DataStream], function: str
) -> None:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda text, _: 0)
    texts = anywhere.from_collection(["one two"]).assign_timestamps_and_watermarks(times)

    with pytest.raises(
        JobFailedError,
        match=rf"operator 'tell' .*TypeError: {re.escape(function)} returned 'one two', a str, .* "
        r"yield it, or return \[it\]",
    ):
        list(step(texts).name("tell").execute_and_collect())
