"""What each step does to records, run in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.common import Types
from tidegate.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.errors import ConfigError
from tidegate.types import TypeInformation


class Double(MapFunction):
    def map(self, value: int) -> int:
        return 2 * value


class Odd(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


class Twice(FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[int]:
        yield value
        yield value


class Parity(KeySelector):
    def get_key(self, value: int) -> int:
        return value % 2


class Sum(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        self.total.update(self.total.value() + value)
        yield ctx.get_current_key(), self.total.value()


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "restart-strategy.fixed-delay.attempts": 0,
        }
    )


def test_function_classes_do_what_callables_do(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection(range(10))

    classes = numbers.map(Double()).filter(Odd()).union(numbers.filter(Odd()).flat_map(Twice()))
    functions = [value for n in range(10) if n % 2 for value in (n, n)]

    assert Counter(classes.execute_and_collect()) == Counter(functions)


@pytest.mark.parametrize("selector", [Parity(), lambda value: value % 2], ids=["class", "function"])
def test_records_of_a_key_meet_in_one_subtask(env: StreamExecutionEnvironment, selector: Any) -> None:
    sums = env.from_collection(range(10)).key_by(selector).process(Sum())

    results = list(sums.execute_and_collect())

    assert max(total for key, total in results if key == 0) == 20
    assert max(total for key, total in results if key == 1) == 25
    assert len(results) == 10


def test_a_stream_united_with_itself_comes_twice_whatever_way_each_goes(
    env: StreamExecutionEnvironment,
) -> None:
    numbers = env.from_collection(range(5))

    both = numbers.rebalance().union(numbers, numbers.forward())

    assert Counter(both.execute_and_collect()) == Counter(dict.fromkeys(range(5), 3))


def test_a_union_of_streams_of_different_types_is_refused(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1], type_info=Types.INT())
    texts = numbers.map(str, Types.STRING())

    with pytest.raises(
        ConfigError,
        match=r"different types: got int and string; expected one type; map one stream.* use connect",
    ):
        numbers.union(numbers, texts)


@pytest.mark.parametrize("declared", [None, Types.PICKLED_BYTE_ARRAY()], ids=["untyped", "pickled"])
def test_a_stream_that_does_not_say_its_type_unites_with_any(
    env: StreamExecutionEnvironment, declared: TypeInformation | None
) -> None:
    numbers = env.from_collection([1], type_info=Types.INT())
    texts = numbers.map(lambda number: str(number), declared)

    assert Counter(numbers.union(texts).execute_and_collect()) == Counter([1, "1"])


def test_a_very_long_chain_runs(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([0])
    for _ in range(50):
        stream = stream.flat_map(lambda value: [value + 1]).filter(lambda value: True)

    assert list(stream.execute_and_collect()) == [50]


def test_state_without_a_key_is_refused_by_the_operators_name(env: StreamExecutionEnvironment) -> None:
    class Counting(MapFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG(), 0))

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(
        ConfigError, match=r"operator 'counting' asks for state 'seen'.*use key_by\(\.\.\.\) first"
    ):
        list(env.from_collection([1]).map(Counting()).name("counting").execute_and_collect())


def test_print_writes_each_record_with_its_prefix(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": 1,
            "state.checkpoints.dir": str(tmp_path),
        }
    )
    env.from_collection(["a", "b"]).print("letters")

    result = env.execute("printing")

    captured = capfd.readouterr()
    assert captured.out.splitlines() == ["letters> a", "letters> b"]
    assert f"pipeline 'printing', checkpoints in {tmp_path}" in captured.err
    assert (result.state, result.records, result.restarts, result.resumed_from) == ("finished", 2, 0, None)


def test_a_stream_tells_what_it_was_told(env: StreamExecutionEnvironment) -> None:
    stream = (
        env.from_collection([1], Types.LONG()).filter(lambda n: n > 0).name("positive").force_non_parallel()
    )

    assert stream.get_name() == "positive"
    assert stream.get_execution_environment() is env
    assert stream.get_type() == Types.LONG()
    assert list(stream.execute_and_collect()) == [1]
