"""Steps of random programs over changes: what each does to a stream of rows, and its functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Duration, Row, RowKind, WatermarkStrategy
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    state,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions

__all__ = ["DEALS", "IN_BATCH", "IN_EPOCHS", "STEPS", "Passes"]

ODD: Final = OutputTag("odd")
RULES: Final = MapStateDescriptor("rules")
AT_THE_END: Final = 2**50
DAY: Final = TumblingEventTimeWindows.of(Duration.of_days(1))
WAIT: Final = Duration.of_seconds(60)
TRIPLED: Final = Expressions(
    (Branch("make(key, number * 3)", where="number != 4"),), ("key", "number"), {"make": Row}
)
SPLIT: Final = Expressions(
    (Branch(where="v[1] % 2 == 0"), Branch("make(*v)", "v[1] % 2", ODD)), names={"make": Row}
)


def turned(row: Row) -> Row:
    """A deletion where there was an insertion, an old row where there was a new one, and the other way round."""
    return Row.of_kind(RowKind(3 - row.get_row_kind()), *row)


def key(row: Row) -> int:
    number: int = row[0]
    return number


def inserted(stream: DataStream) -> DataStream:
    return stream.map(lambda row: Row(row[0], row[1] + 1))


def joined(stream: DataStream) -> DataStream:
    return stream.union(stream.get_side_output(ODD).map(turned))


def apart(row: Row) -> Any:
    """Odd numbers go to a side output."""
    return (ODD, row) if row[1] % 2 else row


class Apart(ProcessFunction):
    def process_element(self, value: Row, ctx: Any) -> Iterator[Any]:
        yield apart(value)


class Later(KeyedProcessFunction):
    """Keeps rows in lists and emits them at the end of time."""

    rows = state.List[Row]()

    def process_element(self, value: Row, ctx: Any) -> None:
        self.rows.add(value)
        ctx.timer_service().register_event_time_timer(AT_THE_END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield from map(apart, list(self.rows.get()))


class Total(KeyedProcessFunction):
    """Adds what rows bring, takes off what they take back, and tells the last digit at the end of time."""

    total = state.Value(int, default=0)

    def process_element(self, value: Row, ctx: Any) -> None:
        sign = 1 if value.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
        self.total.update(self.total.value() + sign * value[1])
        ctx.timer_service().register_event_time_timer(AT_THE_END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Row]:
        yield Row(ctx.get_current_key(), self.total.value() % 10)


class Awaiting(KeyedProcessFunction):
    async def process_element(self, value: Row, ctx: Any) -> Any:
        yield value


class Echo(AsyncFunction):
    async def async_invoke(self, value: Row) -> list[Row]:
        return [value]


class TurnSecond(CoMapFunction):
    def map1(self, value: Row) -> Row:
        return value

    def map2(self, value: Row) -> Row:
        return turned(value)


class DropInsertions(CoFlatMapFunction):
    """Of the second input, what is no insertion."""

    def flat_map1(self, value: Row) -> list[Row]:
        return [value]

    def flat_map2(self, value: Row) -> list[Row]:
        return [value] if value.get_row_kind() else []


class TwoSides(KeyedCoProcessFunction):
    def process_element1(self, value: Row, ctx: Any) -> Iterator[Row]:
        yield value

    def process_element2(self, value: Row, ctx: Any) -> Iterator[Any]:
        yield apart(value)


class _Rules:
    """Passes rows on; keeps those that are broadcast, which one subtask passes on turned."""

    def open(self, runtime_context: Any) -> None:
        self.first = runtime_context.get_index_of_this_subtask() == 0

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:
        yield value

    def process_broadcast_element(self, value: Row, ctx: Any) -> Iterator[Row]:
        ctx.get_broadcast_state(RULES).put(tuple(value), value)
        if self.first:
            yield turned(value)


class Rules(_Rules, BroadcastProcessFunction):
    pass


class RulesOfKeys(_Rules, KeyedBroadcastProcessFunction):
    pass


class Passes:
    """A filter that takes its time for each record."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s

    def __call__(self, row: Row) -> bool:
        if self._pause_s:
            SYSTEM_CLOCK.sleep(self._pause_s)
        return True


def _sums(stream: DataStream) -> DataStream:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: 0)
    stamped = inserted(stream).assign_timestamps_and_watermarks(times)
    sums = stamped.key_by(key).window(DAY).reduce(lambda first, second: Row(first[0], first[1] + second[1]))
    return sums.map(lambda row: Row(row[0], row[1] % 10))


def _stamped(stream: DataStream) -> DataStream:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[1])
    return stream.assign_timestamps_and_watermarks(times)


def _iterated(stream: DataStream) -> DataStream:
    rounds = stream.iterate(300)
    body = rounds.map(lambda row: Row.of_kind(row.get_row_kind(), row[0], row[1] - 3))
    rounds.close_with(body.filter(lambda row: row[1] > 2))
    return body.filter(lambda row: row[1] <= 2)


STEPS: dict[str, Callable[[DataStream], DataStream]] = {
    "map": lambda stream: stream.map(turned),
    "insertions": inserted,
    "filter": lambda stream: stream.filter(lambda row: row.get_row_kind() != row[1] % 4),
    "flat map": lambda stream: stream.flat_map(lambda row: [row, turned(row)]),
    "process": lambda stream: joined(stream.process(Apart())),
    "keyed map": lambda stream: stream.key_by(key).map(turned),
    "later": lambda stream: joined(stream.key_by(key).process(Later())),
    "total": lambda stream: stream.key_by(key).process(Total()),
    "reduce": lambda stream: (
        inserted(stream).key_by(key).reduce(lambda _, row: row).map(lambda row: Row(row[0], 0))
    ),
    "windows": _sums,
    "stamp": _stamped,
    "expressions": lambda stream: stream.transform("tripled", EXPRESSIONS, TRIPLED),
    "split expressions": lambda stream: joined(stream.transform("split", EXPRESSIONS, SPLIT)),
    "union": lambda stream: stream.union(stream.map(turned)),
    "co-map": lambda stream: stream.connect(stream.filter(lambda row: row[1] > 4)).map(TurnSecond()),
    "co-flat map": lambda stream: stream.connect(stream).flat_map(DropInsertions()),
    "co-process": lambda stream: joined(
        stream.key_by(key).connect(stream.filter(lambda row: row[1] > 4).key_by(key)).process(TwoSides())
    ),
    "broadcast process": lambda stream: stream.connect(
        stream.filter(lambda row: row[1] > 6).broadcast(RULES)
    ).process(Rules()),
    "keyed broadcast process": lambda stream: (
        stream.key_by(key)
        .connect(stream.filter(lambda row: row[1] > 6).broadcast(RULES))
        .process(RulesOfKeys())
    ),
    "async process": lambda stream: stream.key_by(key).process(Awaiting()),
    "ordered": lambda stream: AsyncDataStream.ordered_wait(stream, Echo(), WAIT),
    "unordered": lambda stream: AsyncDataStream.unordered_wait(stream, Echo(), WAIT),
    "iteration": _iterated,
}
"""What each step does to a stream of rows of a key and a number."""

IN_EPOCHS: Final = sorted(STEPS.keys() - {"iteration"})
"""Those that take checkpoints, on every executor."""
IN_BATCH: Final = sorted(STEPS.keys() - {"iteration", "async process"})
"""Those of batch jobs."""

DEALS: dict[str, Callable[[DataStream], DataStream]] = {
    "hash": lambda stream: stream.key_by(key),
    "rebalance": DataStream.rebalance,
    "broadcast": DataStream.broadcast,
    "rescale": DataStream.rescale,
    "shuffle": DataStream.shuffle,
    "global": DataStream.global_,
    "custom": lambda stream: stream.partition_custom(lambda of, targets: of % targets, lambda row: row[1]),
}
"""How records get to the subtasks of the next step."""
