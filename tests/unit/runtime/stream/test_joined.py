"""Two streams that meet by key within windows, on every executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.common import Duration, WatermarkStrategy
from tidegate.datastream import (
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import (
    CountEvictor,
    EventTimeTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from tidegate.errors import ConfigError

Env = StreamExecutionEnvironment

THREE_SECONDS = TumblingEventTimeWindows.of(Duration.of_seconds(3))
FIVE_SECONDS = TumblingEventTimeWindows.of(Duration.of_seconds(5))


def stream(env: Env, *records: tuple[str, int, int]) -> DataStream:
    """Records `(key, value, time)`."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[2])
    return env.from_collection(records).set_parallelism(1).assign_timestamps_and_watermarks(times)


def first(record: tuple[Any, ...]) -> Any:
    return record[0]


class Pair(JoinFunction):
    def open(self, runtime_context: Any) -> None:
        self.opened = True

    def join(self, first: Any, second: Any) -> Any:
        assert self.opened
        return first[1], second[1]


class Sides(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        yield [record[1] for record in first], [record[1] for record in second]


def sides_of(env: Env) -> tuple[DataStream, DataStream]:
    left = stream(env, ("k", 1, 1_000))
    return left, stream(env, ("k", 10, 2_000), ("k", 20, 7_000))


@pytest.mark.spec("002/AX-61")
def test_a_join_pairs_what_meets_and_a_co_group_sees_what_is_alone(anywhere: Env) -> None:
    left, right = sides_of(anywhere)
    joined = left.join(right).where(first).equal_to(first).window(FIVE_SECONDS).apply(Pair())
    assert list(joined.execute_and_collect()) == [(1, 10)]

    left, right = sides_of(anywhere)
    grouped = left.co_group(right).where(first).equal_to(first).window(FIVE_SECONDS).apply(Sides())
    assert sorted(grouped.execute_and_collect()) == [([], [20]), ([1], [10])]


@pytest.mark.spec("000/EX-11")
def test_a_join_forms_the_product_of_both_sides_per_key_and_window(anywhere: Env) -> None:
    users = stream(anywhere, ("ada", 1, 0), ("ada", 2, 2_999), ("ada", 3, 3_000), ("bob", 4, 0))
    visits = stream(anywhere, ("ada", 10, 1_000), ("ada", 20, 2_000), ("cleo", 30, 0), ("ada", 40, 5_999))

    joined = users.join(visits).where(first).equal_to(first).window(THREE_SECONDS)
    pairs = sorted(joined.apply(lambda user, visit: (user[1], visit[1])).execute_and_collect())
    assert pairs == [(1, 10), (1, 20), (2, 10), (2, 20), (3, 40)]


def test_a_flat_join_answers_any_number_and_settings_of_windows_apply(anywhere: Env) -> None:
    class Less(FlatJoinFunction):
        def join(self, first: Any, second: Any) -> Iterator[Any]:
            if first[1] < second[1]:
                yield first[1], second[1]

    left = stream(anywhere, ("k", 1, 0), ("k", 15, 1))
    right = stream(anywhere, ("k", 10, 2), ("k", 20, 3))
    joined = left.join(right).where(first).equal_to(first).window(FIVE_SECONDS)
    settled = joined.trigger(PurgingTrigger.of(EventTimeTrigger())).evictor(CountEvictor.of(9))

    results = settled.allowed_lateness(1_000).apply(Less()).execute_and_collect()
    assert sorted(results) == [(1, 10), (1, 20), (15, 20)]


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda a, b: a.join(5), "join takes a DataStream; got int"),
        (lambda a, b: a.co_group(5), "co_group takes a DataStream; got int"),
        (
            lambda a, b: a.join(b).where(5.0),
            "where takes a function that returns a key, or the position .*; got float",
        ),
        (lambda a, b: a.join(b).equal_to(first), "join: call where"),
        (
            lambda a, b: a.co_group(b).where(first).window(FIVE_SECONDS),
            "co_group needs the keys of both streams",
        ),
        (
            lambda a, b: a.join(b).where(first).equal_to(first).window(FIVE_SECONDS).apply(5),
            "apply of a join takes a function of two arguments; got int",
        ),
    ],
)
def test_a_join_that_is_not_complete_is_refused(misuse: Any, message: str) -> None:
    env = Env.get_execution_environment({"execution.target": "inline"})

    with pytest.raises(ConfigError, match=message):
        misuse(env.from_collection([("a", 1)]), env.from_collection([("a", 2)]))
