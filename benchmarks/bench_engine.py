"""Programs of the DataStream API against plain loops that call the same functions: records per CPU second.

Every job runs inline, checkpoints on, from a collection in memory to a sink that drops records. The loops neither
keep results nor copy anything, so they are the least that Python can do.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from benchmarks.harness import Bar, Case, Report, compare, main
from benchmarks.jobs import run_inline
from tidegate.common import WatermarkStrategy
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

COUNT = 1_000_000
KEYED = 500_000
KEYS = 1_000
LATER_MS = 100

NUMBERS = list(range(COUNT))
FEW = NUMBERS[:KEYED]


def times_three(number: int) -> int:
    return number * 3


def is_not_of_seven(number: int) -> bool:
    return number % 7 != 0


def once_or_twice(number: int) -> tuple[int, ...]:
    return (number, number) if number % 10 == 0 else (number,)


def plus_one(number: int) -> int:
    return number + 1


def key_of(number: int) -> int:
    return number % KEYS


def to_pair(number: int) -> tuple[int, int]:
    return number % KEYS, number


def first_of(pair: tuple[int, int]) -> int:
    return pair[0]


def time_of(number: int, _: int | None) -> int:
    return number


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", default=0))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        seen = self.seen.value() + 1
        self.seen.update(seen)
        yield seen


class CountAndCall(Count):
    """Counts, and wants to be called later for each record."""

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        seen = self.seen.value() + 1
        self.seen.update(seen)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + LATER_MS)
        yield seen

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        pass


class CountInDict:
    """What `Count` does, over a dictionary."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.timers: list[tuple[int, int]] = []

    def process_element(self, value: int, key: int) -> Iterator[int]:
        seen = self.seen.get(key, 0) + 1
        self.seen[key] = seen
        yield seen

    def process_and_call(self, value: int, key: int) -> Iterator[int]:
        seen = self.seen.get(key, 0) + 1
        self.seen[key] = seen
        heapq.heappush(self.timers, (value + LATER_MS, key))
        yield seen

    def on_timer(self, timestamp: int, key: int) -> None:
        pass


def build(rounds: int) -> Report:
    cases = [
        Case("chain, loop", loop_chain, {"records": COUNT}, COUNT),
        Case("chain, tidegate", lambda: run_inline(chain), {"records": COUNT}, COUNT),
        Case("count, loop", loop_count, {"records": KEYED, "keys": KEYS}, KEYED),
        Case("count, tidegate", lambda: run_inline(count), {"records": KEYED, "keys": KEYS}, KEYED),
        Case("count and timers, loop", loop_timers, {"records": KEYED, "keys": KEYS}, KEYED),
        Case(
            "count and timers, tidegate", lambda: run_inline(timers), {"records": KEYED, "keys": KEYS}, KEYED
        ),
        Case("sum, loop", loop_sum, {"records": KEYED, "keys": KEYS}, KEYED),
        Case("sum, tidegate", lambda: run_inline(running_sum), {"records": KEYED, "keys": KEYS}, KEYED),
    ]
    bars = [
        Bar("chain, tidegate", "chain, loop", 0.75, "of its speed"),
        Bar("count, tidegate", "count, loop", 0.4, "of its speed"),
        Bar("count and timers, tidegate", "count, loop", 0.2, "of its speed"),
        Bar("count and timers, tidegate", "count and timers, loop", 0.2, "of its speed"),
        Bar("sum, tidegate", "sum, loop", 0.45, "of its speed"),
    ]
    return compare("engine", cases, bars, rounds=rounds, clock="cpu_s")


def chain(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_collection(NUMBERS).map(times_three).filter(is_not_of_seven)
    return numbers.flat_map(once_or_twice).map(plus_one)


def loop_chain() -> None:
    for number in NUMBERS:
        number = times_three(number)
        if is_not_of_seven(number):
            for one in once_or_twice(number):
                plus_one(one)


def count(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(FEW).key_by(key_of).process(Count())


def loop_count() -> None:
    function = CountInDict()
    for number in FEW:
        for _ in function.process_element(number, key_of(number)):
            pass


def timers(env: StreamExecutionEnvironment) -> DataStream:
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(time_of)
    stamped = env.from_collection(FEW).assign_timestamps_and_watermarks(stamps)
    return stamped.key_by(key_of).process(CountAndCall())


def loop_timers() -> None:
    function = CountInDict()
    waiting = function.timers
    for number in FEW:
        for _ in function.process_and_call(number, key_of(number)):
            pass
        while waiting and waiting[0][0] <= number:
            function.on_timer(*heapq.heappop(waiting))


def running_sum(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(FEW).map(to_pair).key_by(first_of).sum(1)


def loop_sum() -> None:
    sums: dict[int, tuple[int, int]] = {}
    for number in FEW:
        pair = to_pair(number)
        key = first_of(pair)
        before = sums.get(key)
        sums[key] = pair if before is None else (before[0], before[1] + pair[1])


if __name__ == "__main__":
    main(build)
