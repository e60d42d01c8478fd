from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.files import FileSink, TextLines
from tidegate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from tidegate.errors import JobFailedError, RecordError, UserCodeError
from tidegate.runtime.operators.failure import show


def boom(value: int) -> int:
    if value == 7:
        raise ValueError("seven")
    return value


class FailsIn(KeyedProcessFunction):
    def __init__(self, where: str) -> None:
        self.where = where

    def open(self, runtime_context: Any) -> None:
        self.fail("open")

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(5)
        ctx.timer_service().register_processing_time_timer(5)
        self.fail("element")
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.fail("timer")

    def close(self) -> None:
        self.fail("close")

    def fail(self, where: str) -> None:
        if self.where == where:
            raise LookupError(f"in {where}")


class FailsInOpen(MapFunction):
    def open(self, runtime_context: Any) -> None:
        raise LookupError("no connection")

    def map(self, value: int) -> int:
        return value


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


def failure_of(stream: Any) -> UserCodeError:
    with pytest.raises(JobFailedError, match="failed and its restarts are used up") as caught:
        list(stream.execute_and_collect())
    cause = caught.value.__cause__
    assert isinstance(cause, UserCodeError)
    return cause


def test_a_failing_function_is_named_with_the_record_and_where_it_was_read(
    env: StreamExecutionEnvironment,
) -> None:
    error = failure_of(env.from_parallel_collection(range(10)).map(boom).name("check").uid("the-check"))

    assert str(error) == (
        "operator 'check' (uid 'the-check', subtask collection-1[1]) failed on record 7 "
        "at position 7 of split '5-10': ValueError: seven"
    )
    assert isinstance(error.__cause__, ValueError)


def test_behind_other_steps_the_record_read_is_named_not_the_one_made_of_it(
    env: StreamExecutionEnvironment,
) -> None:
    error = failure_of(env.from_parallel_collection(range(3)).map(lambda v: v + 5).filter(boom))

    assert "operator 'filter' (uid 'filter-1'" in str(error)
    assert "failed on record 2 at position 2 of split '1-3'" in str(error)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("open", r"failed in open: LookupError: in open"),
        ("element", r"failed on record \d: LookupError: in element"),
        ("timer", r"failed in a timer due by (watermark )?\d+: LookupError: in timer"),
    ],
)
def test_a_keyed_function_is_blamed_wherever_it_fails(
    env: StreamExecutionEnvironment, where: str, message: str
) -> None:
    error = failure_of(env.from_collection(range(4)).key_by(lambda v: v % 2).process(FailsIn(where)))

    with pytest.raises(UserCodeError, match=r"operator 'process' \(uid 'process-1', subtask .*" + message):
        raise error
    assert isinstance(error.__cause__, LookupError)


def test_a_map_function_that_cannot_open_is_blamed(env: StreamExecutionEnvironment) -> None:
    error = failure_of(env.from_collection([1]).map(FailsInOpen()).name("connect"))

    assert "operator 'connect'" in str(error)
    assert "failed in open: LookupError: no connection" in str(error)


def test_a_key_selector_is_blamed_with_the_record(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([{"k": 1}, {"x": 2}]).set_parallelism(1).key_by(lambda v: v["k"])

    error = failure_of(keyed.process(FailsIn("nowhere")))

    assert (
        str(error)
        == "the key selector behind operator 'collection-1' failed on record {'x': 2}: KeyError: 'k'"
    )
    assert isinstance(error.__cause__, KeyError)


def test_a_record_that_a_sink_refuses_is_placed_among_those_that_were_read(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    """A sink takes a batch at once, so the place is that of the batch."""
    words: list[Any] = ["a", "b", 3, "d"]
    env.set_parallelism(1)
    env.from_collection(words).map(lambda word: word).sink_to(FileSink(tmp_path, TextLines())).name(
        "lines"
    ).uid("the-lines")

    with pytest.raises(JobFailedError) as caught:
        env.execute("words")

    assert isinstance(caught.value.__cause__, RecordError)
    assert re.fullmatch(
        r"operator 'lines' \(uid 'the-lines', subtask .*\) failed on results of positions? \d( to \d)? of split '.*': "
        r"record 3 is a int; expected a string; map it with str",
        str(caught.value.__cause__),
    )


def test_a_long_record_is_shortened() -> None:
    assert show("x" * 300) == f"'{'x' * 199}... (302 characters)"
