"""Windows of the DataStream API against hand-written dicts of windows that call the same reduce function.

Every job runs inline, checkpoints on, from a list in memory to a sink that drops records. The loops trust that records
come in order, keep nothing but the open windows and lose everything when they fail. The jobs read the list by a
generator source, because `from_collection` sends its records to the workers first, which costs more than the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Bar, Case, Report, compare, main
from benchmarks.jobs import run_inline
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)

COUNT = 1_000_000
KEYS = 1_000
SIZE_MS = 250_000
"""As many milliseconds as records: each key has one a second, so 250 in a window."""
ACTIVE, GAP_MS = 50, 5_000
"""Keys that are active at a time, each for a session of 1,000 records; then they are silent for longer than the gap."""

Record = tuple[int, int, int]
"""Key, value, time."""

RECORDS: list[Record] = [(number % KEYS, 1, number) for number in range(COUNT)]
VISITS: list[Record] = [
    (number // (ACTIVE * 1_000) * ACTIVE % KEYS + number % ACTIVE, 1, number * 10) for number in range(COUNT)
]


def add(a: Record, b: Record) -> Record:
    return a[0], a[1] + b[1], b[2]


def key_of(record: Record) -> int:
    return record[0]


def time_of(record: Record, _: int | None) -> int:
    return record[2]


TIMES = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(time_of)


def purchase(number: int) -> Record:
    return RECORDS[number]


def visit(number: int) -> Record:
    return VISITS[number]


def job(read: Callable[[int], Record], count: int, assigner: WindowAssigner) -> None:
    def program(env: StreamExecutionEnvironment) -> DataStream:
        stamped = env.from_source(GeneratorSource(read, count), TIMES, "memory")
        return stamped.key_by(key_of).window(assigner).reduce(add)

    run_inline(program)


def tumbling_loop() -> None:
    windows: dict[tuple[int, int], Record] = {}
    end = 0
    for record in RECORDS:
        key, _, time = record
        if time >= end:
            windows.clear()
            end = time - time % SIZE_MS + SIZE_MS
        window = key, time - time % SIZE_MS
        held = windows.get(window)
        windows[window] = record if held is None else add(held, record)


def session_loop() -> None:
    sessions: dict[int, Record] = {}
    for record in VISITS:
        key, _, time = record
        held = sessions.get(key)
        sessions[key] = add(held, record) if held is not None and time <= held[2] + GAP_MS else record


def build(rounds: int) -> Report:
    tumbling = TumblingEventTimeWindows.of(Duration.of_millis(SIZE_MS))
    sliding = SlidingEventTimeWindows.of(Duration.of_millis(SIZE_MS), Duration.of_millis(SIZE_MS // 2))
    sessions = EventTimeSessionWindows.with_gap(Duration.of_millis(GAP_MS))
    some = COUNT // 4
    arguments: dict[str, Any] = {"records": COUNT, "keys": KEYS}
    cases = [
        Case("tumbling, loop", tumbling_loop, arguments, COUNT),
        Case("tumbling, job", lambda: job(purchase, COUNT, tumbling), arguments, COUNT),
        Case("sessions, loop", session_loop, arguments, COUNT),
        Case("sessions, job", lambda: job(visit, COUNT, sessions), arguments, COUNT),
        Case("sliding, job", lambda: job(purchase, some, sliding), {**arguments, "records": some}, some),
    ]
    bars = [Bar("tumbling, job", "tumbling, loop", 0.35, "of its speed")]
    return compare("windows", cases, bars, rounds=min(rounds, 7), seconds=0.0, clock="cpu_s")


if __name__ == "__main__":
    # What stands in the main module would travel with every job, the records of a million purchases included.
    from benchmarks import bench_windows

    main(bench_windows.build)
