"""Keyed state inside a KeyedProcessFunction against the same function over dictionaries, and the pause at a barrier.

The functions emit nothing; both sides call the same `process_element` with a state that has `value` and `update`, or
`get` and `put`. Jobs run inline on the heap backend, checkpoints on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, Case, Report, Round, compare, main, measure
from benchmarks.jobs import run_inline
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.descriptors import MapStateDescriptor, ValueStateDescriptor
from tidegate.backends.keyed.ttl import StateTtlConfig
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.common import Time
from tidegate.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange

COUNT = 500_000
KEYS = 1_000
INNER = 20
DIRTY = 10_000

NUMBERS = list(range(COUNT))


def key_of(number: int) -> int:
    return number % KEYS


class Count(KeyedProcessFunction):
    """Counts records of a key in a value."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", default=0))

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.update(self.seen.value() + 1)


class CountForAnHour(Count):
    """The same in a value that expires."""

    def open(self, runtime_context: Any) -> None:
        described = ValueStateDescriptor("seen", default=0)
        described.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.seen = runtime_context.get_state(described)


class CountInMap(KeyedProcessFunction):
    """Counts records of a key in the entries of a map."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.put(value % INNER, (self.seen.get(value % INNER) or 0) + 1)


class ValueOfDict:
    """A value per key in a dictionary."""

    def __init__(self) -> None:
        self.key = 0
        self._values: dict[int, int] = {}

    def value(self) -> int:
        return self._values.get(self.key, 0)

    def update(self, value: int) -> None:
        self._values[self.key] = value


class MapOfDict:
    """A map per key in a dictionary of dictionaries."""

    def __init__(self) -> None:
        self.key = 0
        self._maps: dict[int, dict[int, int]] = {key: {} for key in range(KEYS)}

    def get(self, key: int) -> int | None:
        return self._maps[self.key].get(key)

    def put(self, key: int, value: int) -> None:
        self._maps[self.key][key] = value


def build(rounds: int) -> Report:
    arguments = {"records": COUNT, "keys": KEYS}
    cases = [
        Case("value, dict", lambda: loop(Count(), ValueOfDict()), arguments, COUNT),
        Case("value, tidegate", lambda: run_inline(counted(Count)), arguments, COUNT),
        Case("value that expires, tidegate", lambda: run_inline(counted(CountForAnHour)), arguments, COUNT),
        Case("map, dict", lambda: loop(CountInMap(), MapOfDict()), arguments, COUNT),
        Case("map, tidegate", lambda: run_inline(counted(CountInMap)), arguments, COUNT),
    ]
    bars = [
        Bar("value, tidegate", "value, dict", 0.45, "of its speed"),
        Bar("value that expires, tidegate", "value, dict", 0.25, "of its speed"),
        Bar("map, tidegate", "map, dict", 0.35, "of its speed"),
    ]
    for name, make, limit in (("immutable", int, 5.0), ("mutable", lambda n: [n], 15.0)):
        pause = f"pause, {name} values"
        cases.append(Case(pause, Pause(make), {"values": DIRTY}, DIRTY))
        bars.append(Bar(pause, pause, limit, "ms"))
    return compare("state", cases, bars, rounds=rounds, clock="cpu_s", meter=meter)


def meter(run: Callable[[], object], calls: int = 1) -> Round:
    """Leaves out what goes before a pause."""
    if isinstance(run, Pause):
        run.prepare(calls)
    return measure(run, calls)


def counted(function: type[KeyedProcessFunction]) -> Callable[[StreamExecutionEnvironment], DataStream]:
    return lambda env: env.from_collection(NUMBERS).key_by(key_of).process(function())


def loop(function: Any, state: Any) -> None:
    function.seen = state
    process = function.process_element
    for number in NUMBERS:
        state.key = key_of(number)
        process(number, None)


class Pause:
    """What a subtask does at a barrier with a new value for each of many keys, without the upload in the background."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._files = StorageFiles(MemoryStorage().blobs, "bench", inline_threshold=0)
        self._make = make
        self._stores: list[KeyedStore] = []

    def prepare(self, calls: int) -> None:
        self._stores = [self._written() for _ in range(calls)]

    def __call__(self) -> None:
        self._stores.pop().snapshot(CheckpointId(1), None)

    def _written(self) -> KeyedStore:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
            place = BackendContext(Path(folder), self._files, {})
            store = KeyedStore(HeapBackend(), KeyGroupRange(0, 128), 128, (), place)
        state = store.value_state(ValueStateDescriptor("held"))
        store.prefetch(range(DIRTY))
        for key in range(DIRTY):
            store.bind(key)
            state.update(self._make(key))
        return store


if __name__ == "__main__":
    main(build)
