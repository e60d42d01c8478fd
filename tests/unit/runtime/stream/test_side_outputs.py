"""Side outputs of process functions, on every executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.common import Types
from tidegate.datastream import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from tidegate.errors import ConfigError

SIDE = OutputTag("side-output", Types.STRING())


class Both(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield value
        yield SIDE, f"sideout-{value}"


@pytest.mark.spec("002/AX-09")
def test_records_go_on_and_strings_leave_by_the_side(anywhere: StreamExecutionEnvironment) -> None:
    main = anywhere.from_collection([1, 2, 3]).process(Both())
    side = main.get_side_output(OutputTag("side-output", Types.STRING()))

    both = main.map(lambda v: ("main", v)).union(side.map(lambda v: ("side", v)))

    results = list(both.execute_and_collect())
    assert sorted(v for kind, v in results if kind == "main") == [1, 2, 3]
    assert sorted(v for kind, v in results if kind == "side") == ["sideout-1", "sideout-2", "sideout-3"]


def test_several_tags_and_one_that_nobody_reads(anywhere: StreamExecutionEnvironment) -> None:
    low, high, lost = OutputTag("low"), OutputTag("high"), OutputTag("lost")

    class Sort(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            yield (low if value < 3 else high), value
            yield lost, value

    sorted_ = anywhere.from_collection(range(6)).process(Sort())
    lows, highs = sorted_.get_side_output(low), sorted_.get_side_output(high)

    # A side output may be keyed, dealt and joined like any stream.
    sums = lows.map(lambda v: ("low", v)).union(highs.rebalance().map(lambda v: ("high", v)))
    totals = sums.key_by(lambda v: v[0]).sum(1)

    results = dict(sorted(totals.execute_and_collect()))
    assert results == {"low": 3, "high": 12}


def test_a_side_output_behind_a_key_also_takes_what_timers_emit(
    anywhere: StreamExecutionEnvironment,
) -> None:
    tag = OutputTag("fired")

    class Alarm(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield "main", timestamp
            yield tag, ("side", timestamp)

    fired = anywhere.from_collection([5, 7]).key_by(lambda v: v).process(Alarm())

    both = fired.union(fired.get_side_output(tag))

    assert sorted(both.execute_and_collect()) == [("main", 5), ("main", 7), ("side", 5), ("side", 7)]


class Aside:
    """Emits a value in the stream and to the side."""

    def both(self, value: Any) -> Iterator[Any]:
        yield "main", value
        yield SIDE, f"side {value}"


class Plain(Aside, ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from self.both(value)


class Keyed(Aside, KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from self.both(value)


class Co(Aside, CoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from self.both(value)

    def process_element2(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from ()


class KeyedCo(Aside, KeyedCoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from ()

    def process_element2(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from self.both(value)


class Window(Aside, ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Any) -> Iterator[Any]:
        for value in elements:
            yield from self.both(value)


class AllWindow(Aside, ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Iterator[Any]:
        for value in elements:
            yield from self.both(value)


class Rules(Aside, BroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from ()

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if ctx.get_broadcast_state(SEEN).is_empty():
            yield from self.both(value)


SEEN = MapStateDescriptor("seen")


def same(value: int) -> int:
    return value


@pytest.mark.spec("002/SO-02", "002/SO-05")
@pytest.mark.parametrize(
    "apply",
    [
        pytest.param(lambda s: s.process(Plain()), id="process"),
        pytest.param(lambda s: s.key_by(same).process(Keyed()), id="keyed process"),
        pytest.param(lambda s: s.connect(s).process(Co()), id="co-process"),
        pytest.param(lambda s: s.connect(s).key_by(same, same).process(KeyedCo()), id="keyed co-process"),
        pytest.param(lambda s: s.key_by(same).count_window(1).process(Window()), id="window"),
        pytest.param(lambda s: s.count_window_all(2).process(AllWindow()), id="window of all"),
        pytest.param(
            lambda s: s.connect(s.broadcast(SEEN)).process(Rules()).set_parallelism(1), id="broadcast"
        ),
    ],
)
def test_every_kind_of_process_function_has_side_outputs(
    anywhere: StreamExecutionEnvironment, apply: Any
) -> None:
    stream = apply(anywhere.from_collection([1, 2]))

    both = stream.union(stream.get_side_output(SIDE).map(lambda text: ("side", text)))

    expected = [("main", 1), ("main", 2), ("side", "side 1"), ("side", "side 2")]
    assert sorted(both.execute_and_collect(), key=str) == expected


@pytest.mark.parametrize(
    ("mistake", "match"),
    [
        (lambda s: s.get_side_output(SIDE), "'collection' has no side outputs"),
        (lambda s: s.process(Both()).get_side_output("late"), "get_side_output takes a OutputTag; got str"),
        (lambda s: s.process(lambda v: v), "process takes a ProcessFunction; got function"),
        (lambda s: OutputTag(""), "the name of a side output is empty; give it a name"),
    ],
    ids=["no function", "no tag", "no process function", "no name"],
)
def test_a_misuse_says_what_was_expected(mistake: Any, match: str) -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])

    with pytest.raises(ConfigError, match=match):
        mistake(stream)
