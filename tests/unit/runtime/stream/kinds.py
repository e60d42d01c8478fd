"""One function of every kind a user can write, each of which says what it was called for.

A kind is a class with `touched()` at the start of its main method, and a way to put it into a program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tidegate.common import Duration
from tidegate.connectors.functions import ParallelSourceFunction, SinkFunction, SourceFunction
from tidegate.datastream import (
    AggregateFunction,
    AllWindowFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.twophase.function import TwoPhaseCommitSinkFunction
from tidegate.types import Types

__all__ = ["KINDS", "SOURCES", "Counting", "Kept", "Listed", "calls", "last_count"]

NUMBERS = 60


class Counts:
    """Counts its calls."""

    count = 0

    def touched(self) -> None:
        self.count += 1


class Counting(Counts, CheckpointListener):
    """Notes what it is told; the count is its state."""

    directory = ""
    name = ""

    def note(self, what: str, number: int) -> None:
        with (Path(self.directory) / self.name).open("a") as file:
            file.write(f"{what} {number}\n")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.note("completed", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.note("aborted", checkpoint_id)


class Kept(Counting, CheckpointedFunction):
    """Keeps the count as a `CheckpointedFunction`."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.count = sum(self.stored.get())
        self.note("restored" if context.is_restored() else "fresh", self.count)

    def snapshot_state(self, context: Any) -> None:
        self.stored.update([self.count])
        self.note("saved", self.count)


class Listed(Counting):
    """Keeps the count as a `ListCheckpointed`."""

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        self.note("saved", self.count)
        return [self.count]

    def restore_state(self, state: list[int]) -> None:
        self.count = sum(state)
        self.note("restored", self.count)


def calls(directory: str, name: str, what: str) -> list[int]:
    """The numbers a function has noted for one of its calls."""
    path = Path(directory) / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [int(number) for called, number in map(str.split, lines) if called == what]


def last_count(directory: str, name: str) -> int:
    """What the last checkpoint holds of a function."""
    return (calls(directory, name, "saved") or [0])[-1]


class _Map(Counts, MapFunction):
    def map(self, value: int) -> int:
        self.touched()
        return value


class _Callable(Counts):
    def __call__(self, value: int) -> int:
        self.touched()
        return value


class _Filter(Counts, FilterFunction):
    def filter(self, value: int) -> bool:
        self.touched()
        return True


class _FlatMap(Counts, FlatMapFunction):
    def flat_map(self, value: int) -> Iterable[int]:
        self.touched()
        return [value]


class _Process(Counts, ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterable[int]:
        self.touched()
        return [value]


class _KeyedProcess(Counts, KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterable[int]:
        self.touched()
        return [value]


class _Reduce(Counts, ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        self.touched()
        return value2


class _Fold(Counts):
    def __call__(self, folded: int, value: int) -> int:
        self.touched()
        return value


class _Aggregate(Counts, AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        self.touched()
        return value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class _CoMap(Counts, CoMapFunction):
    def map1(self, value: int) -> int:
        self.touched()
        return value

    def map2(self, value: int) -> int:
        return value


class _CoFlatMap(Counts, CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterable[int]:
        self.touched()
        return [value]

    def flat_map2(self, value: int) -> Iterable[int]:
        return []


class _CoProcess(Counts, CoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterable[int]:
        self.touched()
        return [value]

    def process_element2(self, value: int, ctx: Any) -> None:
        return None


class _KeyedCoProcess(Counts, KeyedCoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterable[int]:
        self.touched()
        return [value]

    def process_element2(self, value: int, ctx: Any) -> None:
        return None


class _Broadcast(Counts, BroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterable[int]:
        self.touched()
        return [value]

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        return None


class _KeyedBroadcast(Counts, KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterable[int]:
        self.touched()
        return [value]

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        return None


class _Window(Counts, WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[int]) -> Iterable[int]:
        self.touched()
        return inputs


class _AllWindow(Counts, AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[int]) -> Iterable[int]:
        self.touched()
        return inputs


class _ProcessWindow(Counts, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[int]) -> Iterable[int]:
        self.touched()
        return elements


class _ProcessAllWindow(Counts, ProcessAllWindowFunction):
    def process(self, context: Any, elements: Iterable[int]) -> Iterable[int]:
        self.touched()
        return elements


class _Join(Counts, JoinFunction):
    def join(self, first: int, second: int) -> int:
        self.touched()
        return first


class _FlatJoin(Counts, FlatJoinFunction):
    def join(self, first: int, second: int) -> Iterable[int]:
        self.touched()
        return [first]


class _CoGroup(Counts, CoGroupFunction):
    def co_group(self, first: Iterable[int], second: Iterable[int]) -> Iterable[int]:
        self.touched()
        return first


class _Async(Counts, AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        self.touched()
        return [value]


class _Sink(Counts, SinkFunction):
    def invoke(self, value: int, context: Any) -> None:
        self.touched()


class _SinkCallable(Counts):
    def __call__(self, value: int) -> None:
        self.touched()


class _Transactions(Counts, TwoPhaseCommitSinkFunction[str]):
    begun = 0

    def begin_transaction(self) -> str:
        self.begun += 1
        return f"transaction {self.begun}"

    def invoke(self, transaction: str, value: int, context: Any) -> None:
        self.touched()

    def pre_commit(self, transaction: str) -> None:
        pass

    def commit(self, transaction: str) -> None:
        pass

    def abort(self, transaction: str) -> None:
        pass


class Gated(Counts):
    """Emits half of the numbers, waits for a file, emits the others; where it is, is the count."""

    gate = ""

    def open(self, runtime_context: Any) -> None:
        self.told = threading.Event()

    def run(self, ctx: Any) -> None:
        while self.count < NUMBERS:
            if self.count == NUMBERS // 2:
                while not Path(self.gate).exists() and not self.told.wait(0.005):
                    pass
            if self.told.is_set():
                return
            with ctx.get_checkpoint_lock():
                ctx.collect_with_timestamp(self.count, self.count)
                ctx.emit_watermark(self.count)
                self.touched()

    def cancel(self) -> None:
        self.told.set()


class _Source(Gated, SourceFunction):
    pass


class _ParallelSource(Gated, ParallelSourceFunction):
    pass


RULES = MapStateDescriptor("rules")
EACH = TumblingEventTimeWindows.of(Duration.of_millis(1))


def _key(value: int) -> int:
    return 0


def _same(value: int) -> int:
    return value


def _joined(step: str) -> Callable[[DataStream, Any], DataStream]:
    return lambda s, f: getattr(s, step)(s).where(_same).equal_to(_same).window(EACH).apply(f, Types.LONG())


def _keyed(step: str) -> Callable[[DataStream, Any], DataStream]:
    return lambda s, f: getattr(s.key_by(_key), step)(f)


def _connected(step: str) -> Callable[[DataStream, Any], DataStream]:
    return lambda s, f: getattr(s.connect(s), step)(f)


def _windowed(step: str) -> Callable[[DataStream, Any], DataStream]:
    return lambda s, f: getattr(s.key_by(_key).window(EACH), step)(f)


def _all_windowed(step: str) -> Callable[[DataStream, Any], DataStream]:
    return lambda s, f: getattr(s.window_all(EACH), step)(f)


def _asking(stream: DataStream, function: Any) -> DataStream:
    return AsyncDataStream.ordered_wait(stream, function, Duration.of_seconds(30))


KINDS: dict[str, tuple[type[Any], Callable[[DataStream, Any], Any], int]] = {
    "map": (_Map, lambda s, f: s.map(f), NUMBERS),
    "callable": (_Callable, lambda s, f: s.map(f), NUMBERS),
    "filter": (_Filter, lambda s, f: s.filter(f), NUMBERS),
    "flat map": (_FlatMap, lambda s, f: s.flat_map(f), NUMBERS),
    "process": (_Process, lambda s, f: s.process(f), NUMBERS),
    "keyed process": (_KeyedProcess, _keyed("process"), NUMBERS),
    "keyed map": (_Map, _keyed("map"), NUMBERS),
    "reduce": (_Reduce, _keyed("reduce"), NUMBERS - 1),
    "fold": (_Fold, lambda s, f: s.key_by(_key).fold(0, f), NUMBERS),
    "co-map": (_CoMap, _connected("map"), NUMBERS),
    "co-flat map": (_CoFlatMap, _connected("flat_map"), NUMBERS),
    "co-process": (_CoProcess, _connected("process"), NUMBERS),
    "keyed co-process": (
        _KeyedCoProcess,
        lambda s, f: s.key_by(_key).connect(s.key_by(_key)).process(f),
        NUMBERS,
    ),
    "broadcast": (_Broadcast, lambda s, f: s.connect(s.broadcast(RULES)).process(f), NUMBERS),
    "keyed broadcast": (
        _KeyedBroadcast,
        lambda s, f: s.key_by(_key).connect(s.broadcast(RULES)).process(f),
        NUMBERS,
    ),
    "window": (_Window, _windowed("apply"), NUMBERS),
    "process window": (_ProcessWindow, _windowed("process"), NUMBERS),
    "window of all": (_AllWindow, _all_windowed("apply"), NUMBERS),
    "process window of all": (_ProcessAllWindow, _all_windowed("process"), NUMBERS),
    "reduce in windows": (_Reduce, lambda s, f: s.key_by(_key).count_window(2).reduce(f), NUMBERS // 2),
    "fold in windows": (_Fold, lambda s, f: s.key_by(_key).window(EACH).fold(0, f), NUMBERS),
    "aggregate": (_Aggregate, _windowed("aggregate"), NUMBERS),
    "aggregate beside a window function": (
        _Aggregate,
        lambda s, f: s.key_by(_key).window(EACH).aggregate(f, _Beside()),
        NUMBERS,
    ),
    "join": (_Join, _joined("join"), NUMBERS),
    "flat join": (_FlatJoin, _joined("join"), NUMBERS),
    "co-group": (_CoGroup, _joined("co_group"), NUMBERS),
    "async": (_Async, _asking, NUMBERS),
    "sink": (_Sink, lambda s, f: s.add_sink(f), NUMBERS),
    "keyed sink": (_Sink, lambda s, f: s.key_by(_key).add_sink(f), NUMBERS),
    "sink callable": (_SinkCallable, lambda s, f: s.add_sink(f), NUMBERS),
    "transactions": (_Transactions, lambda s, f: s.add_sink(f), NUMBERS),
}
"""By name: a class, how a stream gets it, and how often it is called in a run without failure."""

SOURCES: dict[str, type[Any]] = {"source": _Source, "parallel source": _ParallelSource}


class _Beside(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[int]) -> Iterable[int]:
        return elements
