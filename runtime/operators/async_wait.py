"""Operator for asynchronous I/O: requests an external system for each record, many requests at once.

Requests run in the worker's event loop; everything else, the queue above all, belongs to the worker's thread. At a
barrier the queue is the operator's state: all requests that were not emitted. A restore repeats all of them, so a
request may be made more than once, while each record's results are emitted once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidegate.checks import shorten
from tidegate.elements import Batch, Element, Idle, Watermark
from tidegate.errors import UserCodeError
from tidegate.runtime.operators.async_queue import Mark, OrderedQueue, Request, RequestQueue, UnorderedQueue
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.event_loop import Answer, AsyncCall
from tidegate.runtime.operators.failure import of_request
from tidegate.runtime.operators.operator import Call, Deferring, Operator, StepKind
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.stream.functions import Wrapper
from tidegate.runtime.stream.results import refuse_text
from tidegate.serde import codec_for, isolate

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode
    from tidegate.runtime.stream.async_data_stream import AsyncFunction, AsyncRetryStrategy

__all__ = ["ASYNC_WAIT", "AsyncStep", "AsyncWait", "Kept"]

_QUEUE = "queue"


@dataclass(frozen=True)
class AsyncStep(Wrapper):
    """An async function and its settings."""

    function: AsyncFunction
    timeout_ms: int
    capacity: int
    ordered: bool
    retry: AsyncRetryStrategy

    @property
    def functions(self) -> tuple[AsyncFunction, ...]:
        """The function."""
        return (self.function,)


class Kept(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """An entry of the queue in a checkpoint: a record, or a watermark if `value` is None.

    A watermark is valid only at the parallelism it was stored with: a rescale redistributes the records around it.
    """

    value: bytes | None
    timestamp: int | None
    parallelism: int


def _open(node: StreamNode, context: OperatorContext) -> Operator:
    return AsyncWait(node.payload, context)


ASYNC_WAIT: Final = StepKind("async_wait", _open, nests=True)


class AsyncWait(Deferring):
    """At most `capacity` requests are in progress, and no batch is accepted while `capacity` results are not emitted."""

    def __init__(self, step: AsyncStep, context: OperatorContext) -> None:
        super().__init__((Call("process", self._take, self),))
        self.stamp: int | None = None
        self._step = step
        self._context = context
        self._queue: RequestQueue = OrderedQueue() if step.ordered else UnorderedQueue()
        self._waiting: deque[Request] = deque()
        self._running = 0
        self._answers: deque[tuple[Request, Answer]] = deque()
        self._told = False
        self._codec = codec_for(None)

    def open(self) -> None:
        """Repeat all requests in the checkpoint."""
        for item in self._context.restored.items(_QUEUE):
            kept = msgspec.msgpack.decode(item, type=Kept)
            if kept.value is not None:
                self._ask(Request(self._codec.decode(kept.value), kept.timestamp))
            elif kept.timestamp is not None and kept.parallelism == self._context.env.parallelism:
                self._queue.add(Watermark(kept.timestamp))

    def ready(self) -> bool:
        """Whether a request can start at once."""
        return len(self._queue) < self._step.capacity

    def empty(self) -> bool:
        """Whether every result was emitted."""
        return not self._queue.entries()

    def forwarded(self, watermark: int) -> int | None:
        """None: a watermark waits in the queue for the records before it."""
        self._queue.add(Watermark(watermark))
        return None

    def idle(self, idle: bool) -> None:
        """None: idleness waits in the queue like a watermark, so receivers get our records before they stop waiting for us."""
        self._queue.add(Idle(idle))

    def arrivals(self) -> Iterator[Element]:
        """Emit completed requests in order; start requests in place of the completed ones."""
        self._told = False
        while self._answers:
            request, answer = self._answers.popleft()
            self._running -= 1
            if isinstance(answer, BaseException):
                raise of_request(self._context, request.value, answer) from answer
            self._queue.complete(request, answer)
        self._start()
        for entry in self._queue.take():
            if isinstance(entry, Mark):
                yield entry
            elif entry.results:
                times = None if entry.timestamp is None else [entry.timestamp] * len(entry.results)
                yield Batch(entry.results, times)

    def snapshot_lists(self) -> tuple[OperatorList, ...]:
        """All requests that were not emitted."""
        parallelism, encode = self._context.env.parallelism, self._codec.encode
        kept = [
            Kept(None, entry.timestamp, parallelism)
            if isinstance(entry, Watermark)
            else Kept(encode(entry.value), entry.timestamp, parallelism)
            for entry in self._queue.entries()
            if not isinstance(entry, Idle)
        ]
        return (OperatorList(_QUEUE, tuple(map(msgspec.msgpack.encode, kept))),)

    def _take(self, value: Any, context: Any) -> None:
        self._ask(Request(isolate(value), self.stamp))

    def _ask(self, request: Request) -> None:
        self._queue.add(request)
        self._waiting.append(request)

    def _start(self) -> None:
        count = min(len(self._waiting), self._step.capacity - self._running)
        if count > 0:
            starting = [self._waiting.popleft() for _ in range(count)]
            self._running += count
            self._context.env.requests.start(
                AsyncCall(partial(self._perform, request), partial(self._answer, request))
                for request in starting
            )

    def _answer(self, request: Request, answer: Answer) -> None:
        """Called in the event loop; passes the result to the worker's thread and wakes it once."""
        self._answers.append((request, answer))
        if not self._told:
            self._told = True
            self._context.env.wake()

    async def _perform(self, request: Request) -> list[Any]:
        return _checked(await self._results(request.value), self._step.function.async_invoke)

    async def _results(self, value: Any) -> Any:
        try:
            async with asyncio.timeout(self._step.timeout_ms / 1000) as limit:
                return await self._attempts(value)
        except TimeoutError:
            if not limit.expired():
                raise
        return self._step.function.timeout(value)

    async def _attempts(self, value: Any) -> Any:
        retry, invoke = self._step.retry, self._step.function.async_invoke
        predicate = retry.get_retry_predicate()
        unwanted, passing = predicate.result_predicate(), predicate.exception_predicate()
        attempt = 1
        while True:
            try:
                results = await invoke(value)
                if unwanted is None or not unwanted(results) or not retry.can_retry(attempt):
                    return results
            except Exception as error:
                if passing is None or not passing(error) or not retry.can_retry(attempt):
                    raise
            await asyncio.sleep(retry.get_backoff_time_millis(attempt) / 1000)
            attempt += 1


def _checked(results: Any, function: Callable[..., Any]) -> list[Any]:
    if type(results) is str:
        refuse_text(results, function)
    if not isinstance(results, list | tuple):
        got = "None" if results is None else f"{type(results).__name__} {shorten(results)}"
        raise UserCodeError(
            f"a request returned {got}; expected a list of results from async_invoke and timeout: "
            "[] if there are none, [result] for one"
        )
    return list(results)
