"""Programs whose state is journaled do what they do otherwise, and their journals come to what their checkpoints hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.written import TIMES
from tidegate.backends.storage import LocalStorage
from tidegate.common import Time
from tidegate.connectors.files import FileSink
from tidegate.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    state,
)
from tidegate.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.timeline import Difference, Timeline

RULES = MapStateDescriptor("rules")
TTL = StateTtlConfig.new_builder(Time.hours(1)).build()

Program = Callable[[StreamExecutionEnvironment], Any]


def add(one: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
    return one[0], one[1] + other[1]


def pairs(env: StreamExecutionEnvironment) -> Any:
    numbers = env.from_collection([("abc"[number % 3], number) for number in range(30)]).set_parallelism(1)
    return numbers.key_by(lambda pair: pair[0])


def timed(env: StreamExecutionEnvironment) -> Any:
    items: list[Any] = []
    for number in range(30):
        items += [(("abc"[number % 3], number), number * 10), number * 10 - 25]
    stamped: Any = env.from_collection(items).set_parallelism(1).assign_timestamps_and_watermarks(TIMES)
    records = stamped.set_parallelism(1).filter(lambda item: not isinstance(item, int)).set_parallelism(1)
    return records.map(lambda item: item[0]).set_parallelism(1).key_by(lambda pair: pair[0])


class Everything(KeyedProcessFunction):
    total = state.Value(int, default=0, ttl=TTL)
    mutable = state.Value(default=[])
    many = state.List(int)
    named = state.Map(str, int)
    largest = state.Reducing(max, int)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Any:
        self.total.update(self.total.value() + value[1])
        self.mutable.value().append(value[1])
        self.many.add(value[1])
        self.named.put(str(value[1] % 4), value[1])
        self.largest.add(value[1])
        if value[1] % 5 == 0:
            self.named.clear()
            ctx.timer_service().register_event_time_timer(value[1] * 7)
        yield value[0], self.total.value(), len(list(self.many.get()))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.many.clear()
        yield ctx.get_current_key(), timestamp


class Both(KeyedCoProcessFunction):
    seen = state.Value(int, default=0)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.seen.update(self.seen.value() + 1)
        return ()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.seen.update(self.seen.value() + 100)
        return ()


class Ruled(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put("rule", value)
        return ()


PROGRAMS: dict[str, Program] = {
    "reduce": lambda env: pairs(env).reduce(add),
    "sum": lambda env: pairs(env).sum(1),
    "process": lambda env: timed(env).process(Everything()),
    "tumbling": lambda env: timed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(50))).reduce(add),
    "sessions": lambda env: (
        timed(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(35))).reduce(add)
    ),
    "count": lambda env: pairs(env).count_window(4).reduce(add),
    "two inputs": lambda env: pairs(env).connect(pairs(env)).process(Both()),
    "rules": lambda env: pairs(env).connect(env.from_collection([1, 2]).broadcast(RULES)).process(Ruled()),
}


def place(found: Difference) -> tuple[Any, ...]:
    change = found.change
    return found.operator, change.state.name, change.state.kind, change.key, change.namespace, change.sub


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_journals_change_nothing_and_tell_everything(
    anywhere: StreamExecutionEnvironment, program: Program, tmp_path: Path
) -> None:
    results, held = [], []
    for granularity in ("net", "event"):
        root = tmp_path / granularity
        anywhere.configure({"state.log.granularity": granularity, "state.checkpoints.dir": str(root)})
        program(anywhere).map(str).sink_to(FileSink(str(root / "output")))
        anywhere.execute("program")
        lines = [line for file in root.glob("output/part-*") for line in file.read_text().splitlines()]
        results.append(sorted(lines))
        with Timeline(LocalStorage(root), "program") as timeline:
            held.append({place(each): each.change.after for each in timeline.held(None)})
            told: dict[tuple[Any, ...], bytes | None] = {}
            for _, each in timeline.history():
                assert told.get(place(each)) == each.change.before
                told[place(each)] = each.change.after
        assert {at: data for at, data in told.items() if data is not None} == held[-1]

    assert results[0] == results[1]
    assert held[0].keys() == held[1].keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"state.log.operators": "totals"},
            "option 'state.log.operators' needs state.log.granularity event; got net",
        ),
        (
            {"state.log.operators": "totals,counts", "state.log.granularity": "event"},
            "state.log.operators names uid 'counts'; no keyed operator has it; keyed operators are totals",
        ),
    ],
    ids=["net", "unknown"],
)
def test_operators_whose_changes_cannot_be_kept_are_refused(settings: dict[str, str], message: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", **settings}
    )
    pairs(env).sum(1).uid("totals").print()
    with pytest.raises(ConfigError, match=message):
        env.execute("program")
