"""State that expires, in programs on every executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.common import Time
from tidegate.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

LIFE_MS = 20


class BeforeAndAfter(KeyedProcessFunction):
    """What each kind of state holds right after a write, and when its life is over."""

    def __init__(self, life_ms: int) -> None:
        self.life_ms = life_ms

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.milliseconds(self.life_ms)).build()
        value = ValueStateDescriptor("value")
        elements = ListStateDescriptor("elements")
        entries = MapStateDescriptor("entries")
        largest = ReducingStateDescriptor("largest", max)
        for descriptor in (value, elements, entries, largest):
            descriptor.enable_time_to_live(config)
        self.value = runtime_context.get_state(value)
        self.elements = runtime_context.get_list_state(elements)
        self.entries = runtime_context.get_map_state(entries)
        self.largest = runtime_context.get_reducing_state(largest)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        key, number = value
        self.value.update((self.value.value() or 0) + number)
        self.elements.add(number)
        self.entries.put(number, number)
        self.largest.add(number)
        over = ctx.timer_service().current_processing_time() + LIFE_MS
        while ctx.timer_service().current_processing_time() < over:
            pass
        yield (
            key,
            self.value.value(),
            self.elements.get(),
            dict(self.entries.items()),
            self.largest.get(),
        )


RECORDS = [("a", 3), ("b", 5), ("a", 4)]


def run(env: StreamExecutionEnvironment, life_ms: int) -> list[Any]:
    numbers = env.from_collection(RECORDS).key_by(lambda pair: pair[0])
    return list(numbers.process(BeforeAndAfter(life_ms)).execute_and_collect())


def test_state_is_gone_when_its_life_is_over(anywhere: StreamExecutionEnvironment) -> None:
    results = run(anywhere, LIFE_MS)

    assert sorted(results) == [(key, None, [], {}, None) for key, _ in sorted(RECORDS)]


def test_state_is_there_while_it_lives(anywhere: StreamExecutionEnvironment) -> None:
    results = run(anywhere, 3_600_000)

    assert ("b", 5, [5], {5: 5}, 5) in results
    (last,) = [each for each in results if each[0] == "a" and len(each[2]) == 2]
    assert (last[1], sorted(last[2]), last[3], last[4]) == (7, [3, 4], {3: 3, 4: 4}, 4)


LIFE = StateTtlConfig.new_builder(Time.milliseconds(LIFE_MS)).update_ttl_on_read_and_write().build()


class Largest(AggregateFunction):
    """The largest number."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return max(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return max(acc_a, acc_b)


class Declared(KeyedProcessFunction):
    """States that say in the class how long they live."""

    value = state.Value(int, default=-1, ttl=Time.milliseconds(LIFE_MS))
    elements = state.List(int, ttl=LIFE)
    entries = state.Map(int, int, ttl=LIFE)
    largest = state.Reducing(max, int, ttl=LIFE)
    counted = state.Aggregating(Largest(), int, ttl=LIFE)
    kept = state.Value(int)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        key, number = value
        self.value.update(number)
        self.elements.add(number)
        self.entries.put(number, number)
        self.largest.add(number)
        self.counted.add(number)
        self.kept.update(1)
        over = ctx.timer_service().current_processing_time() + LIFE_MS
        while ctx.timer_service().current_processing_time() < over:
            pass
        expired = self.value.value(), self.elements.get(), self.entries.get(number)
        yield key, *expired, self.largest.get(), self.counted.get(), self.kept.value()


def test_declared_state_says_how_long_it_lives(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.from_collection(RECORDS).key_by(lambda pair: pair[0])

    results = list(numbers.process(Declared()).execute_and_collect())

    assert sorted(results) == [(key, -1, [], None, None, None, 1) for key, _ in sorted(RECORDS)]
