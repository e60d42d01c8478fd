"""Asynchronous I/O: functions that await external systems, and retry strategies.

Example:
    >>> from tidegate.common import Duration
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> class LookUp(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         return [(value, len(value))]
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> words = env.from_collection(["a", "bcd"])
    >>> found = AsyncDataStream.unordered_wait(words, LookUp(), Duration.of_seconds(5), capacity=100)
    >>> sorted(found.execute_and_collect())
    [('a', 1), ('bcd', 3)]
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias

from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.operators.async_wait import ASYNC_WAIT, AsyncStep
from tidegate.runtime.stream.checkpointed import stateless
from tidegate.runtime.stream.datastream import DataStream, instance_of
from tidegate.runtime.stream.functions import Function
from tidegate.runtime.stream.generics import IN, OUT, R, T
from tidegate.runtime.stream.shapes import AsyncInvokes
from tidegate.runtime.stream.step import positive
from tidegate.runtime.stream.time import Duration
from tidegate.types import TypeInformation, result_type

__all__ = [
    "NO_RETRY_STRATEGY",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
]

ResultPredicate: TypeAlias = Callable[[list[Any]], bool]
ExceptionPredicate: TypeAlias = Callable[[Exception], bool]


class AsyncFunction(Function, ABC, Generic[IN, OUT]):
    """Asks an external system about a record; must not change the record.

    `open` and `close` run in the worker's thread, `async_invoke` and `timeout` in its event loop: make clients that
    belong to a loop on first use in `async_invoke`.
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The records that replace `value`; what it raises fails the job unless a retry strategy catches it."""

    def timeout(self, value: IN) -> list[OUT]:
        """What replaces `value` when time is up, tries included; fails the job unless overridden."""
        raise TimeoutError(
            "timeout: the asynchronous call did not complete in time; override timeout(value) to return a result instead"
        )


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which outcomes call for another try."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Tells by the results; None if results never do."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Tells by the exception; None if exceptions never do."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Whether and when to try again.

    Example:
        >>> strategy = AsyncRetryStrategy.fixed_delay(3, 100, None, has_exception_predicate)
        >>> strategy.get_backoff_time_millis(1)
        100
    """

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """One try is all."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """More tries, always the same time apart."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """More tries, each time further apart."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts,
            initial_delay,
            max_retry_delay,
            multiplier,
            result_predicate,
            exception_predicate,
        )

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another try may follow the given number of tries."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after the given number of tries."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Which outcomes call for another try."""


class RetryPredicate(AsyncRetryPredicate):
    """Made of two functions."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._of_result = result_predicate
        self._of_exception = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        """Tells by the results."""
        return self._of_result

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Tells by the exception."""
        return self._of_exception


class NoRetryStrategy(AsyncRetryStrategy):
    """One try is all."""

    def can_retry(self, current_attempts: int) -> bool:
        """Never."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Nothing to wait for."""
        return 0

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """No outcome calls for another try."""
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """Up to `max_attempts` more tries, always the same time apart.

    Example:
        >>> strategy = FixedDelayRetryStrategy(3, 100, None, has_exception_predicate)
        >>> strategy.can_retry(3), strategy.can_retry(4), strategy.get_backoff_time_millis(2)
        (True, False, 100)
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        self._max_attempts = positive("max_attempts", max_attempts)
        self._backoff = positive("backoff_time_millis", backoff_time_millis)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Whether tries are left."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """The delay."""
        return self._backoff

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Which outcomes call for another try."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """Up to `max_attempts` more tries, each time `multiplier` times further apart, at most `max_retry_delay`.

    Example:
        >>> strategy = ExponentialBackoffDelayRetryStrategy(9, 100, 350, 2.0, None, has_exception_predicate)
        >>> [strategy.get_backoff_time_millis(tries) for tries in (1, 2, 3)]
        [100, 200, 350]
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        if multiplier < 1:
            raise ConfigError(f"multiplier is {multiplier}; expected at least 1")
        self._max_attempts = positive("max_attempts", max_attempts)
        self._initial = positive("initial_delay", initial_delay)
        self._longest = positive("max_retry_delay", max_retry_delay)
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Whether tries are left."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """The delay after this many tries."""
        return int(min(self._initial * self._multiplier ** (current_attempts - 1), self._longest))

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Which outcomes call for another try."""
        return self._predicate


NO_RETRY_STRATEGY = NoRetryStrategy()


def empty_result_predicate(result: list[Any]) -> bool:
    """Try again when nothing was found."""
    return not result


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Try again after errors of a type; give the type with `functools.partial`."""
    return isinstance(error, expected_error_type)


def has_exception_predicate(error: Exception) -> bool:
    """Try again whatever was raised."""
    return True


class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream with up to `capacity` requests under way in each subtask.

    A checkpoint holds the records whose results were not emitted yet; after a restore they are requested again, and
    the results of each record are emitted exactly once.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, R],
        timeout: Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Results are emitted as they arrive; watermarks and records do not overtake each other."""
        return _wait(data_stream, async_function, timeout, capacity, output_type, ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, R],
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """As `unordered_wait`, trying again as the strategy says; `timeout` is for all tries together."""
        retry = async_retry_strategy
        return _wait(data_stream, async_function, timeout, capacity, output_type, ordered=False, retry=retry)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, R],
        timeout: Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Results are emitted in the order of the records."""
        return _wait(data_stream, async_function, timeout, capacity, output_type, ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, R],
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """As `ordered_wait`, trying again as the strategy says; `timeout` is for all tries together."""
        retry = async_retry_strategy
        return _wait(data_stream, async_function, timeout, capacity, output_type, ordered=True, retry=retry)


def _wait(
    stream: DataStream,
    function: Any,
    timeout: Duration,
    capacity: int,
    output_type: TypeInformation | None,
    *,
    ordered: bool,
    retry: AsyncRetryStrategy = NO_RETRY_STRATEGY,
) -> DataStream:
    step = "ordered_wait" if ordered else "unordered_wait"
    instance_of(step, function, AsyncFunction)
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise ConfigError(
            f"async_invoke of {type(function).__name__} is not a coroutine function; declare it with `async def`"
        )
    terms = AsyncStep(
        function,
        positive("timeout", instance_of(step, timeout, Duration).to_milliseconds()),
        positive("capacity", capacity),
        ordered,
        stateless(step, instance_of(step, retry, AsyncRetryStrategy)),
    )
    stateless(step, retry.get_retry_predicate())
    found = output_type or result_type(function.async_invoke, element=True)
    inputs = (instance_of(step, stream, DataStream)._input,)
    return DataStream(stream._env, Transformation(ASYNC_WAIT, "async wait", terms, inputs, found))
