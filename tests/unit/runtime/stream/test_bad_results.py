"""Functions whose results are not of the type that they declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tidegate.checks import checker
from tidegate.common import Types
from tidegate.datastream import (
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from tidegate.errors import JobFailedError
from tidegate.runtime.operators import rows
from tidegate.types import TypeInformation

Env = StreamExecutionEnvironment


class Each(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield str(value)


class EachOfKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield str(value)


class Either(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return str(value)

    def map2(self, value: Any) -> Any:
        return str(value)


def text(value: Any) -> Any:
    return str(value)


def annotated(value: int) -> int:
    return cast(int, str(value))


STEPS: dict[str, Callable[[DataStream], DataStream]] = {
    "map": lambda numbers: numbers.map(text, Types.INT()),
    "annotated": lambda numbers: numbers.map(annotated),
    "flat_map": lambda numbers: numbers.flat_map(lambda n: [str(n)], Types.INT()),
    "process": lambda numbers: numbers.process(Each(), Types.INT()),
    "keyed process": lambda numbers: numbers.key_by(abs).process(EachOfKey(), Types.INT()),
    "connected": lambda numbers: numbers.connect(numbers).map(Either(), Types.INT()),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("exchanged", [False, True], ids=["chained", "exchanged"])
def test_a_result_of_another_type_than_declared_is_refused_at_the_first_record(
    anywhere: Env, step: Callable[[DataStream], DataStream], exchanged: bool
) -> None:
    results = step(anywhere.from_collection([7])).name("tell")
    if exchanged:
        results = results.rebalance()

    with pytest.raises(
        JobFailedError,
        match=r"operator 'tell' \(uid 'tell-1', subtask .*\) failed on record 7.*: "
        r"RecordError: result does not have its declared type: got str '7'; expected (int|long)",
    ):
        list(results.map(len).execute_and_collect())


def test_where_a_nested_result_differs_is_named(anywhere: Env) -> None:
    declared = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    pairs = anywhere.from_collection([7]).map(lambda n: ("a", n), declared)

    with pytest.raises(JobFailedError, match=r"field \[1\]: got int 7; expected double"):
        list(pairs.execute_and_collect())


def test_a_first_result_late_in_the_input_is_refused_too(anywhere: Env) -> None:
    numbers = anywhere.from_collection(range(30_000)).map(abs, Types.INT())
    texts = numbers.filter(lambda n: n == 29_000).map(text, Types.INT()).name("tell")

    with pytest.raises(
        JobFailedError, match=r"'tell' .* failed on record 29000.*got str '29000'; expected int"
    ):
        list(texts.execute_and_collect())


def test_results_are_looked_at_in_the_first_batch_that_has_some_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []

    def noting(info: TypeInformation) -> Callable[[Any], bool]:
        check = checker(info)

        def note(value: Any) -> bool:
            looked_at.append(value)
            return check(value)

        return note

    monkeypatch.setattr(rows, "checker", noting)
    env = Env.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 1}
    )

    results = list(env.from_collection(range(30_000)).map(abs, Types.INT()).execute_and_collect())

    assert len(results) == 30_000
    assert looked_at == results[: len(looked_at)]
    assert 0 < len(looked_at) < 1_000
