"""An end that was not asked for fails the job with its name: `sys.exit`, a cancellation, an interrupt in user code.

None of these is an `Exception`. Where one passes the handler of the thread it is raised in, nobody hears of it, and the
job waits for the record for ever.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.waiting import until
from tidegate.common import Duration, Types
from tidegate.connectors.base import Fetched, Fetcher, FetchingReader, ListEnumerator, RangeSplit
from tidegate.connectors.files import FileSink, TextLines
from tidegate.connectors.functions import SinkFunction, SourceFunction
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.datastream import (
    KeyedProcessFunction,
    MapFunction,
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
)
from tidegate.datastream.async_data_stream import AsyncDataStream
from tidegate.errors import JobFailedError
from tidegate.ids import SplitId
from tidegate.runtime.stream.async_data_stream import AsyncFunction
from tidegate.twophase.spi import Committable, CommitterContext

SECONDS: Final = 60.0

Env = StreamExecutionEnvironment
Place = Callable[[Env, BaseException], object]
LONG = Duration.of_minutes(10)


@dataclass
class Raises:
    """What is raised, wherever it is."""

    error: BaseException

    def __call__(self, *given: Any) -> Any:
        raise self.error


class Opening(MapFunction):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def open(self, runtime_context: Any) -> None:
        raise self.error

    def map(self, value: Any) -> Any:
        return value


class Asking(AsyncFunction):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def async_invoke(self, value: int) -> list[int]:
        if value != 2:
            return [value]
        await asyncio.sleep(0)
        raise self.error


class Overdue(Asking):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.Event().wait()
        return []

    def timeout(self, value: int) -> list[int]:
        raise self.error


class LeavingATask(Asking):
    async def async_invoke(self, value: int) -> list[int]:
        asyncio.get_running_loop().call_soon(Raises(self.error))
        await asyncio.Event().wait()
        return []


class CancellingItself(Asking):
    async def async_invoke(self, value: int) -> list[int]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return []


class Processing(KeyedProcessFunction):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def process_element(self, value: int, ctx: Any) -> AsyncIterator[int]:
        await asyncio.sleep(0)
        if value == 2:
            raise self.error
        yield value


class Reducing(KeyedProcessFunction):
    """A state whose function fails at the second record."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", Raises(self.error), Types.LONG())
        )

    async def process_element(self, value: int, ctx: Any) -> list[int]:
        await self.sum.async_add(value)
        return [value]


class Running(SourceFunction):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self, ctx: Any) -> None:
        ctx.collect(1)
        raise self.error


class Invoking(SinkFunction):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def invoke(self, value: Any, context: Any) -> None:
        raise self.error


class Fetching(Fetcher[RangeSplit]):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def fetch(self, splits: Sequence[RangeSplit]) -> Iterator[Fetched[RangeSplit]]:
        raise self.error

    def wake_up(self) -> None:
        """It never waits."""


@dataclass(frozen=True)
class FetchingSource(Source[RangeSplit]):
    error: BaseException

    split_type = RangeSplit
    bounded = True

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> ListEnumerator[RangeSplit]:
        return ListEnumerator(context, [RangeSplit(SplitId("a"), 0, 10)], RangeSplit, restored)

    def open_reader(self, context: ReaderContext) -> FetchingReader[RangeSplit]:
        return FetchingReader(lambda: Fetching(self.error), lambda split, number: split, context)


@dataclass(frozen=True, kw_only=True)
class Committing(FileSink):
    """Its committer is called in a thread of its own."""

    error: BaseException

    def open_committer(self, context: CommitterContext) -> Any:
        committer, error = super().open_committer(context), self.error

        class Ending(type(committer)):  # type: ignore[misc]  # whichever class it is
            def commit(self, committables: Sequence[Committable]) -> Any:
                raise error

        committer.__class__ = Ending
        return committer


def numbers(env: Env) -> Any:
    return env.from_collection([1, 2, 3])


def ask(function: AsyncFunction, env: Env, timeout: Duration = LONG) -> None:
    AsyncDataStream.ordered_wait(numbers(env), function, timeout).name("ask").add_sink(print)


def keyed(env: Env) -> Any:
    return numbers(env).key_by(lambda value: 0)


PLACES: Final[dict[str, tuple[Place, str]]] = {
    "map": (
        lambda env, error: numbers(env).map(Raises(error)).name("it").add_sink(print),
        "operator 'it' .* failed on record 1.*",
    ),
    "open": (
        lambda env, error: numbers(env).map(Opening(error)).name("it").add_sink(print),
        r"operator 'it' .* failed in open",
    ),
    "key selector": (
        lambda env, error: numbers(env).key_by(Raises(error)).map(abs).add_sink(print),
        "the key selector behind operator .* failed on record 1",
    ),
    "request": (lambda env, error: ask(Asking(error), env), "operator 'ask' .* failed on record 2"),
    "timeout of a request": (
        lambda env, error: ask(Overdue(error), env, Duration.of_millis(5)),
        "operator 'ask' .* failed on record 1",
    ),
    "process": (
        lambda env, error: keyed(env).process(Processing(error)).name("it").add_sink(print),
        "operator 'it' .* failed on record 2",
    ),
    "function of state": (
        lambda env, error: keyed(env).process(Reducing(error)).name("it").add_sink(print),
        "operator 'it' .* failed on record 2",
    ),
    "source function": (
        lambda env, error: env.add_source(Running(error)).add_sink(print),
        "source function Running .* failed in run",
    ),
    "fetcher": (
        lambda env, error: env.from_source(FetchingSource(error), source_name="in").add_sink(print),
        "source .* failed in fetching 'a'",
    ),
    "sink function": (
        lambda env, error: numbers(env).add_sink(Invoking(error)),
        "sink function Invoking .* failed in invoke on record 1",
    ),
}
"""Where user code runs, and what a failure there is called."""

ENDS: Final = {
    "cancelled": asyncio.CancelledError(),
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "generator exit": GeneratorExit(),
    "stop iteration": StopIteration(),
}


def environment(target: str) -> Env:
    return Env.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": 1,
            "restart-strategy.fixed-delay.attempts": 0,
        }
    )


def failure(env: Env) -> str:
    end = env.execute_async().get_job_execution_result()
    until(end.done, SECONDS)
    error = end.exception()
    assert isinstance(error, JobFailedError), error
    return str(error)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", PLACES)
def test_an_end_that_was_not_asked_for_fails_the_job_with_its_name(place: str, end: str) -> None:
    build, where = PLACES[place]
    env = environment("inline")
    build(env, ENDS[end])

    assert re.search(f"{where}: .*{type(ENDS[end]).__name__}", failure(env))


@pytest.mark.parametrize("end", ["cancelled", "exit"])
@pytest.mark.parametrize("place", ["map", "request", "process", "source function", "fetcher"])
def test_so_it_does_in_a_worker_process(place: str, end: str) -> None:
    build, where = PLACES[place]
    env = environment("embedded")
    build(env, ENDS[end])

    assert re.search(f"{where}: .*{type(ENDS[end]).__name__}", failure(env))


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_request_that_cancels_itself_fails_the_job(target: str) -> None:
    env = environment(target)
    ask(CancellingItself(KeyError()), env)

    assert re.search("operator 'ask' .* failed on record 1: CancelledError", failure(env))


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_callback_that_ends_the_event_loop_fails_the_job(target: str) -> None:
    env = environment(target)
    ask(LeavingATask(SystemExit(3)), env)

    assert re.search(
        "operator 'ask' .* failed on record 1: .* ended by one of their tasks or callbacks: SystemExit: 3",
        failure(env),
    )


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_committer_that_ends_its_thread_fails_the_job(target: str, tmp_path: Path) -> None:
    env = environment(target)
    numbers(env).map(str).sink_to(Committing(tmp_path, TextLines(), error=SystemExit(3)))

    assert re.search(r"subtask .* failed in user or connector code: SystemExit: 3", failure(env))
