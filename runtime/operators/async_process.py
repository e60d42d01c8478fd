"""Operator for `async def` keyed process functions: many records at once, records of one key in order.

The function runs in the worker's event loop; its state and timers stay with the worker's thread, which carries out what
the function asks for. A watermark waits for all records before it, its timers for it, and all records behind it for
those. A barrier waits until nothing is under way, so a snapshot holds all that a record does or nothing of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeAlias

from tidegate.backends.keyed.asynchronous import CURRENT_RECORD
from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.spi import Timer
from tidegate.elements import MIN_WATERMARK, Batch, Element, Idle, Watermark
from tidegate.errors import ConfigError
from tidegate.failures import called
from tidegate.runtime.operators.async_queue import Mark
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.event_loop import Answer, AsyncCall
from tidegate.runtime.operators.failure import of_request
from tidegate.runtime.operators.operator import Call, Deferring, Emitted, Piece
from tidegate.runtime.stream.results import iterated
from tidegate.runtime.stream.time_characteristic import TimeDomain
from tidegate.serde import isolate

__all__ = ["AsyncProcess", "is_async"]

_AT_ONCE: Final = 1_000
"""At most `capacity` records are in progress, and no batch is accepted while `capacity` records wait."""

_METHODS: Final = ("process_element", "process_element1", "process_element2", "on_timer")

Handler = Callable[[Any, Any], Any]

_Reply: TypeAlias = tuple["asyncio.Future[Any]", Any, BaseException | None]
"""The future of the caller, and the value or the error of the operation."""


def is_async(function: Any) -> bool:
    """Whether the methods of a process function are `async def`.

    Raises:
        ConfigError: some are and some are not.
    """
    kinds = {
        name: inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        for name in _METHODS
        if (method := getattr(type(function), name, None)) is not None
        and not method.__module__.startswith("tidegate.")
    }
    if len(set(kinds.values())) > 1:
        ordinary = ", ".join(name for name, asynchronous in kinds.items() if not asynchronous)
        raise ConfigError(
            f"{type(function).__name__} mixes ordinary and `async def` methods; got ordinary {ordinary}; expected one kind: "
            "write `async def` in front of all of them"
        )
    return True in kinds.values()


class AsyncProcess(Deferring):
    """The operator. A record waits in the queue, then for earlier records of its key, then is in progress."""

    def __init__(
        self, handlers: tuple[Handler, ...], on_timer: Any, store: KeyedStore, context: OperatorContext
    ) -> None:
        calls = (Call("process", partial(self._take, each), self, store.cursor) for each in handlers)
        super().__init__(tuple(calls), store, gives_away=True)
        if context.env.batch or context.env.traced:
            raise ConfigError(
                f"operator {context.get_task_name()!r} is `async def`; got "
                f"{'a batch job' if context.env.batch else 'state.log.granularity event'}, where records are processed one by one; "
                f"expected {'execution.runtime-mode STREAMING' if context.env.batch else 'state.log.operators that are neither it nor behind it'}, or an ordinary function"
            )
        self.stamp: int | None = None
        self.watermark = MIN_WATERMARK
        self.now_ms = context.env.clock.now_ms
        self.state = store
        self._on_timer = on_timer
        self._context = context
        self._line: deque[_Record | Mark] = deque()
        self._of_key: dict[Any, deque[_Record]] = {}
        """For each key with a record in progress, the records that wait for it."""
        self._held = 0
        """All unfinished records."""
        self._running = 0
        self._told: deque[_Asked | _Done] = deque()
        self._woken = False

    def ready(self) -> bool:
        """Whether a new record can start soon."""
        return self._held < _AT_ONCE

    def empty(self) -> bool:
        """Whether no record waits or is in progress."""
        return not self._line and not self._of_key

    def settled(self) -> bool:
        """As `empty`: a record in progress may have changed state, so it cannot be started again."""
        return self.empty()

    def begin(self, watermark: int) -> None:
        """Passed to the function."""
        self.watermark = watermark

    def forwarded(self, watermark: int) -> int | None:
        """None: a watermark waits in the queue for the records before it and for its timers."""
        self._line.append(Watermark(watermark))
        return None

    def idle(self, idle: bool) -> None:
        """None: a change of idleness waits in the queue."""
        self._line.append(Idle(idle))

    def processing_time(self, now_ms: int, piece: Piece) -> Emitted | None:
        """None: due timers wait in the queue, up to its capacity."""
        for timer in self.state.processing_timers.due(now_ms, max(0, _AT_ONCE - self._held)):
            self._line.append(self._due(timer, TimeDomain.PROCESSING_TIME))
        return None

    def next_processing_time(self) -> int | None:
        """When the next processing-time timer is due; None if the queue is full."""
        return self.state.processing_timers.next_time() if self.ready() else None

    def arrivals(self) -> Iterator[Element]:
        """Execute requested operations, emit finished records, start waiting ones."""
        self._woken = False
        answers: list[_Reply] = []
        done: list[_Done] = []
        while self._told:
            event = self._told.popleft()
            if isinstance(event, _Done):
                done.append(event)
            else:
                self._carry_out(event, answers)
        if answers:
            self.state.unbind()
            self.state.end_batch()
            self._context.env.requests.call(partial(_hand_out, answers))
        starting = [record for event in done for record in self._end(event)]
        yield from _batches(done)
        yield from self._begin(starting)
        if starting:
            self._running += len(starting)
            self._context.env.requests.start(
                AsyncCall(partial(self._perform, record), partial(self._done, record)) for record in starting
            )

    def tell(self, event: _Asked | _Done) -> None:
        """Pass an operation to the worker's thread and wake it once; called in the event loop."""
        self._told.append(event)
        if not self._woken:
            self._woken = True
            self._context.env.wake()

    def _take(self, handler: Handler, value: Any, context: Any) -> None:
        self._held += 1
        self._line.append(_Record(self, self.state.current_key, handler, isolate(value), self.stamp))

    def _due(self, timer: Timer, domain: TimeDomain) -> _Record:
        self._held += 1
        return _Record(self, timer.key, self._on_timer, timer.time, timer.time, domain)

    def _begin(self, starting: list[_Record]) -> Iterator[Mark]:
        """Advance the queue; emit watermarks and idleness that no record blocks."""
        while self._line and self._running + len(starting) < _AT_ONCE:
            head = self._line[0]
            if isinstance(head, _Record):
                self._admit(head, starting)
            elif self._of_key:
                return
            elif isinstance(head, Watermark) and (due := self._fired(head.timestamp)):
                for record in due:
                    self._admit(record, starting)
                continue
            else:
                yield head
            self._line.popleft()

    def _fired(self, watermark: int) -> list[_Record]:
        self.begin(watermark)
        due = self.state.event_timers.due(watermark, _AT_ONCE)
        return [self._due(timer, TimeDomain.EVENT_TIME) for timer in due]

    def _admit(self, record: _Record, starting: list[_Record]) -> None:
        waiting = self._of_key.get(record.key)
        if waiting is None:
            self._of_key[record.key] = deque()
            starting.append(record)
        else:
            waiting.append(record)

    def _end(self, event: _Done) -> Iterator[_Record]:
        """The next record of the same key."""
        if isinstance(event.results, BaseException):
            raise of_request(self._context, event.record.value, event.results) from event.results
        self._running -= 1
        self._held -= 1
        waiting = self._of_key[event.record.key]
        if waiting:
            yield waiting.popleft()
        else:
            del self._of_key[event.record.key]

    def _carry_out(self, asked: _Asked, answers: list[_Reply]) -> None:
        self.state.bind(asked.record.key)
        value: Any = None
        failure: BaseException | None = None
        try:
            value = asked.operation()
        except BaseException as error:  # raised by a function that state calls, such as a reduce function
            failure = error
        if asked.answer is not None:
            answers.append((asked.answer, value, failure))
        elif failure is not None:
            raise of_request(self._context, asked.record.value, failure) from failure

    async def _perform(self, record: _Record) -> list[Any]:
        CURRENT_RECORD.set(record)
        try:
            return await _collected(record.handler(record.value, record), record.handler)
        finally:
            record.over = True

    def _done(self, record: _Record, results: Answer) -> None:
        self.tell(_Done(record, results))


@dataclass(slots=True, eq=False)
class _Record:
    """A record or timer with its key: the context passed to the function."""

    operator: AsyncProcess
    key: Any
    handler: Handler
    value: Any
    stamp: int | None
    domain: TimeDomain | None = None
    over: bool = False

    def ask(self, operation: Callable[[], Any]) -> asyncio.Future[Any]:
        """The result of an operation, executed with the key bound."""
        self._refuse_when_over()
        answer = asyncio.get_running_loop().create_future()
        self.operator.tell(_Asked(self, operation, answer))
        return answer

    def timestamp(self) -> int | None:
        return self.stamp

    def timer_service(self) -> _Record:
        return self

    def get_current_key(self) -> Any:
        return self.key

    def time_domain(self) -> TimeDomain | None:
        return self.domain

    def current_processing_time(self) -> int:
        return self.operator.now_ms()

    def current_watermark(self) -> int:
        return self.operator.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._leave(partial(self.operator.state.processing_timers.register, Timer(timestamp, self.key)))

    def register_event_time_timer(self, timestamp: int) -> None:
        self._leave(partial(self.operator.state.event_timers.register, Timer(timestamp, self.key)))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._leave(partial(self.operator.state.processing_timers.delete, Timer(timestamp, self.key)))

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._leave(partial(self.operator.state.event_timers.delete, Timer(timestamp, self.key)))

    def _leave(self, operation: Callable[[], None]) -> None:
        """Execute an operation while the record is in progress."""
        self._refuse_when_over()
        self.operator.tell(_Asked(self, operation))

    def _refuse_when_over(self) -> None:
        if self.over:
            raise ConfigError(
                f"state or a timer of key {self.key!r} is used by a task that outlived the processing of its record; "
                "expected every task to end before the function does; await it there"
            )


@dataclass(frozen=True, slots=True)
class _Asked:
    record: _Record
    operation: Callable[[], Any]
    answer: asyncio.Future[Any] | None = None


@dataclass(frozen=True, slots=True)
class _Done:
    record: _Record
    results: Answer

    @property
    def timed(self) -> bool:
        """Whether its results have a timestamp; results of processing-time timers have none."""
        return self.record.stamp is not None and self.record.domain is not TimeDomain.PROCESSING_TIME


def _batches(done: list[_Done]) -> Iterator[Batch]:
    for timed, events in groupby((each for each in done if each.results), lambda each: each.timed):
        pairs = [(value, each.record.stamp) for each in events for value in each.results]  # type: ignore[union-attr] # failures are raised before
        values, times = map(list, zip(*pairs, strict=True))
        yield Batch(values, times if timed else None)


async def _collected(
    results: AsyncIterable[Any] | Awaitable[Any] | None, function: Callable[..., Any]
) -> list[Any]:
    if results is None:  # a timer of a function that has no `on_timer`
        return []
    if isinstance(results, AsyncIterable):
        return [isolate(value) async for value in results]
    return list(map(isolate, iterated(await results, function)))


def _hand_out(answers: list[_Reply]) -> None:
    """Called in the event loop."""
    for future, value, failure in answers:
        if future.done():  # the caller has cancelled it
            continue
        if failure is None:
            future.set_result(value)
        else:
            future.set_exception(_raisable(failure))


def _raisable(error: BaseException) -> BaseException:
    """The error in a form that a future accepts; coroutines convert `StopIteration` in the same way."""
    if not isinstance(error, StopIteration):
        return error
    raisable = RuntimeError(f"a function of state raised {called(error)}")
    raisable.__cause__ = error
    return raisable
