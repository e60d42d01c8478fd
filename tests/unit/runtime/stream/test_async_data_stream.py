"""Requests beside the stream: order, capacity, time limits, tries, errors; in one process and in several."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.common import Duration, WatermarkStrategy
from tidegate.datastream import ProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.async_data_stream import AsyncDataStream
from tidegate.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from tidegate.datastream.async_retry_strategies import FixedDelayRetryStrategy
from tidegate.errors import ConfigError, JobFailedError
from tidegate.runtime.stream.async_data_stream import AsyncFunction

LONG = Duration.of_minutes(1)


@pytest.fixture(params=["inline", "embedded"])
def env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": request.param,
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "restart-strategy.fixed-delay.attempts": 0,
        }
    )


class Lookup(AsyncFunction):
    async def async_invoke(self, value: str) -> list[tuple[str, str]]:
        await asyncio.sleep(0)
        return [(value, value.upper())]


class Backwards(AsyncFunction):
    """The last of four requests is answered first, the others only after it."""

    def open(self, runtime_context: Any) -> None:
        self.answered: list[int] = []
        self.turn = asyncio.Condition()

    async def async_invoke(self, value: int) -> list[int]:
        async with self.turn:
            await self.turn.wait_for(lambda: 5 - value == len(self.answered) + 1)
            self.answered.append(value)
            self.turn.notify_all()
        return [value]


class Counting(AsyncFunction):
    """Tells how many requests were under way at once."""

    def open(self, runtime_context: Any) -> None:
        self.running = 0

    async def async_invoke(self, value: int) -> list[int]:
        self.running += 1
        seen = self.running
        await asyncio.sleep(0.001)
        self.running -= 1
        return [seen]


class Flaky(AsyncFunction):
    """Fails twice for each record, or finds nothing, before it answers."""

    def open(self, runtime_context: Any) -> None:
        self.tries: dict[int, int] = {}

    async def async_invoke(self, value: int) -> list[tuple[int, int]]:
        self.tries[value] = self.tries.get(value, 0) + 1
        if self.tries[value] == 1:
            raise OSError("not now")
        return [(value, self.tries[value])] if self.tries[value] > 2 else []


class Never(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.Event().wait()
        return []


class NeverButElse(Never):
    def timeout(self, value: int) -> list[int]:
        return [-value]


class Failing(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        raise KeyError("no such customer")


class Text(AsyncFunction):
    async def async_invoke(self, value: int) -> Any:
        return "text"


class Nothing(AsyncFunction):
    async def async_invoke(self, value: int) -> Any:
        return None


class Stamps(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark() < value


@pytest.mark.spec("000/EX-24")
@pytest.mark.parametrize("mode", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
def test_each_record_is_replaced_by_what_was_found(anywhere: StreamExecutionEnvironment, mode: Any) -> None:
    found = mode(anywhere.from_collection(["a", "b"]), Lookup(), Duration.of_millis(1000), 100)

    assert sorted(found.execute_and_collect()) == [("a", "A"), ("b", "B")]


@pytest.mark.spec("000/EX-25")
def test_in_order_early_answers_are_held(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.set_parallelism(1).from_collection([1, 2, 3, 4])

    assert list(AsyncDataStream.ordered_wait(numbers, Backwards(), LONG).execute_and_collect()) == [
        1,
        2,
        3,
        4,
    ]


def test_out_of_order_answers_go_on_as_they_come(env: StreamExecutionEnvironment) -> None:
    numbers = env.set_parallelism(1).from_collection([1, 2, 3, 4])

    answers = AsyncDataStream.unordered_wait(numbers, Backwards(), LONG)

    assert list(answers.execute_and_collect()) == [4, 3, 2, 1]


def test_timestamps_go_along_and_watermarks_do_not_overtake(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    stamped = env.from_collection(range(1_000)).assign_timestamps_and_watermarks(strategy)

    answers = AsyncDataStream.unordered_wait(stamped, Backwards4(), LONG, capacity=16).process(Stamps())

    assert sorted(answers.execute_and_collect()) == [(n, n, True) for n in range(1_000)]


class Backwards4(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep((value % 4) / 1000)
        return [value]


def test_no_more_requests_are_under_way_than_the_capacity(env: StreamExecutionEnvironment) -> None:
    answers = AsyncDataStream.unordered_wait(env.from_collection(range(500)), Counting(), LONG, capacity=7)

    seen = list(answers.execute_and_collect())

    assert (len(seen), max(seen)) == (500, 7)


def test_a_request_is_tried_again_by_exception_and_by_result(env: StreamExecutionEnvironment) -> None:
    retry = FixedDelayRetryStrategy(2, 1, empty_result_predicate, has_exception_predicate)

    answers = AsyncDataStream.ordered_wait_with_retry(env.from_collection([1, 2]), Flaky(), LONG, retry)

    assert sorted(answers.execute_and_collect()) == [(1, 3), (2, 3)]


def test_when_the_tries_are_used_up_the_last_outcome_counts(env: StreamExecutionEnvironment) -> None:
    retry = FixedDelayRetryStrategy(1, 1, empty_result_predicate, has_exception_predicate)

    answers = AsyncDataStream.unordered_wait_with_retry(env.from_collection([1, 2]), Flaky(), LONG, retry)

    assert list(answers.execute_and_collect()) == []


def test_a_function_may_answer_for_a_request_that_takes_too_long(env: StreamExecutionEnvironment) -> None:
    answers = AsyncDataStream.ordered_wait(env.from_collection([1, 2]), NeverButElse(), Duration.of_millis(5))

    assert sorted(answers.execute_and_collect()) == [-2, -1]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            Never(),
            r"operator 'ask' \(subtask .*\) failed on record 1: TimeoutError: timeout: the asynchronous call did not complete in time; override",
        ),
        (Failing(), r"operator 'ask' \(subtask .*\) failed on record 1: KeyError: 'no such customer'"),
        (
            Text(),
            r"Text\.async_invoke returned .text., a str, and its characters .*; yield it, or return \[it\]",
        ),
        (Nothing(), "a request returned None; expected a list of results .* if there are none, .* for one"),
    ],
    ids=["timeout", "exception", "text", "none"],
)
def test_a_failed_request_fails_the_job_with_the_users_error(
    env: StreamExecutionEnvironment, function: AsyncFunction, message: str
) -> None:
    answers = AsyncDataStream.ordered_wait(env.from_collection([1]), function, Duration.of_millis(20))

    with pytest.raises(JobFailedError, match=message):
        list(answers.name("ask").execute_and_collect())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((abs, LONG), "ordered_wait takes a AsyncFunction; got builtin_function_or_method"),
        ((Lookup(), 1000), "ordered_wait takes a Duration; got int"),
        ((Lookup(), Duration(0)), "timeout is 0; expected an integer of at least 1"),
        ((Lookup(), LONG, 0), "capacity is 0; expected an integer of at least 1"),
    ],
    ids=["function", "timeout", "no time", "capacity"],
)
def test_wrong_terms_are_refused(arguments: Any, message: str) -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])

    with pytest.raises(ConfigError, match=message):
        AsyncDataStream.ordered_wait(stream, *arguments)


def test_a_function_that_is_no_coroutine_is_refused() -> None:
    class Plain(AsyncFunction):
        def async_invoke(self, value: Any) -> Any:
            return [value]

    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])

    with pytest.raises(
        ConfigError, match="async_invoke of Plain is not a coroutine function; declare it with `async def`"
    ):
        AsyncDataStream.unordered_wait(stream, Plain(), LONG)
