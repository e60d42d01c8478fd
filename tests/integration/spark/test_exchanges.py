"""Programs with several exchanges in a row: one Spark job per epoch, with a level for each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.losing import lose_shuffled
from tidegate.clock import new_id
from tidegate.common import Types
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.errors import JobFailedError

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

Env = StreamExecutionEnvironment
COUNT = 600


@pytest.fixture
def env(spark: Path, tmp_path: Path) -> Env:
    settings = {
        "pipeline.progress": "off",
        "execution.spark.epoch-records": 100,
        "restart-strategy.fixed-delay.attempts": 0,
        "state.checkpoints.dir": str(tmp_path / "state"),
    }
    return StreamExecutionEnvironment.on_spark("local[2]", settings).set_parallelism(2)


def numbered() -> KeyedProcessFunction:
    """Numbers the records of each key."""

    class Numbered(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.count.update(self.count.value() + 1)
            yield (*value, self.count.value())

    return Numbered()


def test_each_level_has_its_keys_its_state_and_its_parallelism(env: Env) -> None:
    numbers: Any = env.from_source(GeneratorSource(lambda n: (n,), count=COUNT)).set_parallelism(1)
    first = numbers.key_by(lambda row: row[0] % 7).process(numbered()).set_parallelism(3)
    second = first.key_by(lambda row: row[0] % 2).process(numbered()).set_parallelism(2)
    third = second.rebalance().map(lambda row: row).set_parallelism(4)

    rows: list[Any] = list(third.execute_and_collect())

    assert sorted(row[0] for row in rows) == list(range(COUNT))
    by_seven, by_two = (
        Counter((row[0] % 7, row[1]) for row in rows),
        Counter((row[0] % 2, row[2]) for row in rows),
    )
    assert set(by_seven.values()) == set(by_two.values()) == {1}
    assert {number for key, number in by_seven if key == 0} == set(range(1, 87))
    assert {number for key, number in by_two if key == 1} == set(range(1, 301))


def test_what_goes_past_a_level_arrives_behind_it(env: Env) -> None:
    class Both(KeyedCoProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.sides = runtime_context.get_state(ValueStateDescriptor("sides", Types.STRING(), ""))

        def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield from self.met("counted", value)

        def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield from self.met("read", value)

        def met(self, side: str, value: Any) -> Iterator[Any]:
            self.sides.update(self.sides.value() + side[0])
            if len(self.sides.value()) == 2:
                yield value[0], "".join(sorted(self.sides.value()))

    numbers: Any = env.from_source(GeneratorSource(lambda n: (n,), count=COUNT))
    counted = numbers.key_by(lambda row: row[0] % 7).process(numbered())
    once_more = counted.key_by(lambda row: row[0] % 3).process(numbered())
    met = once_more.key_by(lambda row: row[0]).connect(numbers.key_by(lambda row: row[0])).process(Both())

    pairs: list[Any] = list(met.execute_and_collect())
    assert sorted(pairs) == [(n, "cr") for n in range(COUNT)]


def test_side_outputs_and_broadcast_streams_cross_levels(env: Env) -> None:
    odd = OutputTag("odd", Types.PICKLED_BYTE_ARRAY())
    rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())

    class Parted(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield (odd, value) if value[0] % 2 else value

    class Ruled(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value[0], ctx.get_broadcast_state(rules).get("factor")

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(rules).put("factor", value)

    numbers: Any = env.from_source(GeneratorSource(lambda n: (n,), count=COUNT))
    parted = numbers.key_by(lambda row: row[0] % 5).process(numbered()).rebalance().process(Parted())
    factor = env.from_source(CollectionSource([10])).broadcast(rules)
    ruled = parted.rebalance().connect(factor).process(Ruled())
    united = ruled.union(parted.get_side_output(odd).map(lambda row: (row[0], -1)))

    rows: list[Any] = list(united.execute_and_collect())

    assert sorted(row[0] for row in rows) == list(range(COUNT))
    # Which input is read first nobody says; what was broadcast in one epoch holds in the next.
    assert {factor for number, factor in rows if number % 2 == 0 and number > 300} == {10}
    assert all((factor == -1) == bool(number % 2) for number, factor in rows)


@pytest.mark.crash
def test_a_repeat_behind_the_second_exchange_takes_nothing_twice(
    env: Env, spark: Path, tmp_path: Path
) -> None:
    """The last task loses what was shuffled and dies, so all levels before it are run again, for it alone."""
    fifo = tmp_path / "subtask-0-has-its-records"
    os.mkfifo(fifo)
    lose = lose_shuffled(fifo, spark)

    class Last(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.index = runtime_context.get_index_of_this_subtask()

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            lose(self.index)
            yield value

    numbers: Any = env.from_source(GeneratorSource(lambda n: (n,), count=COUNT)).map(
        lambda row: (*row, new_id())
    )
    first = numbers.key_by(lambda row: row[0] % 97).process(numbered()).map(lambda row: (*row, new_id()))
    last = first.key_by(lambda row: row[0]).process(Last())

    rows: list[Any] = list(last.execute_and_collect())

    assert sorted(row[0] for row in rows) == list(range(COUNT))
    assert len({row[1] for row in rows}) == len({row[3] for row in rows}) == COUNT
    assert Counter((row[0] % 97, row[2]) for row in rows).most_common(1)[0][1] == 1
    assert len(list(tmp_path.glob("subtask-*-was-here"))) == 2, "one of them died"


def test_an_error_before_an_exchange_is_told_once_and_stops_those_behind_it(env: Env) -> None:
    def fail(row: Any) -> Any:
        raise ValueError("no such row")

    numbers: Any = env.from_source(GeneratorSource(lambda n: (n,), count=10))
    failing = numbers.rebalance().map(fail).rebalance().map(lambda row: row)

    with pytest.raises(JobFailedError, match=r"operator 'map.*' .*ValueError: no such row"):
        list(failing.execute_and_collect())
