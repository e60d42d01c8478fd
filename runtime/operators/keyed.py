"""Operators of process functions: with a key, state and timers, or without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.keyed.timers import StoredTimers
from tidegate.errors import ConfigError
from tidegate.runtime.operators.async_process import AsyncProcess
from tidegate.runtime.operators.context import KeyedContext, OperatorContext, RecordContext
from tidegate.runtime.operators.operator import Call, Emitted, Operator, Piece, StepInput, StepKind
from tidegate.runtime.stream.results import iterated
from tidegate.runtime.stream.time_characteristic import TimeDomain
from tidegate.serde import isolate

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode

__all__ = ["CO_PROCESS", "PROCESS", "KeyedProcess", "Process"]

Handler = Callable[[Any, Any], Iterable[Any] | None]


def _open(node: StreamNode, context: OperatorContext) -> Operator:
    return _opened((node.payload.process_element,), node, context)


def _open_two(node: StreamNode, context: OperatorContext) -> Operator:
    return _opened((node.payload.process_element1, node.payload.process_element2), node, context)


PROCESS: Final = StepKind(
    "process", _open, side_outputs=True, declares_results=True, may_await=True, nests=True
)
CO_PROCESS: Final = StepKind(
    "co_process",
    _open_two,
    title="Co-Process",
    inputs=(StepInput(), StepInput()),
    side_outputs=True,
    declares_results=True,
    may_await=True,
    nests=True,
)


def _opened(handlers: tuple[Handler, ...], node: StreamNode, context: OperatorContext) -> Operator:
    """The operator of a process function: one handler per input, and one for timers.

    Raises:
        ConfigError: it is `async def`, and has no key or runs where that is not supported.
    """
    if context.asynchronous and not context.keyed:
        raise ConfigError(
            f"operator {context.get_task_name()!r} is `async def`; got an input without keys; expected one behind "
            "key_by(...); use AsyncDataStream for requests that need no state"
        )
    if not context.keyed:
        return Process(handlers, context.env.clock.now_ms)
    on_timer: Any = getattr(node.payload, "on_timer", None)
    store = context.keyed_store("needs a key")
    if context.asynchronous:
        return AsyncProcess(handlers, on_timer, store, context)
    return KeyedProcess(handlers, on_timer, store, KeyedContext(store, context.env.clock.now_ms))


class Process(Operator):
    """A process function without a key: it sees time but has no timers."""

    def __init__(self, handlers: tuple[Handler, ...], now_ms: Callable[[], int]) -> None:
        self._context = RecordContext(now_ms)
        super().__init__(tuple(Call("process", handler, self._context) for handler in handlers))

    def begin(self, watermark: int) -> None:
        """Passed to the function; the operator does not use it."""
        self._context.watermark = watermark

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """Passed to the function; the operator does not use it."""
        self.begin(watermark)
        return None


class KeyedProcess(Operator):
    """A process function behind `key_by`; its records are run by the generated loop, its timers here."""

    def __init__(
        self, handlers: tuple[Handler, ...], on_timer: Handler, store: KeyedStore, context: KeyedContext
    ) -> None:
        self._context = context
        self._on_timer = on_timer
        self._store = store
        super().__init__(
            tuple(Call("process", handler, self._context, store.cursor) for handler in handlers), store
        )

    def begin(self, watermark: int) -> None:
        """Passed to the function."""
        self._context.watermark = watermark

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """The results of the event-time timers due by `watermark`, with their times."""
        self.begin(watermark)
        self._context.domain = TimeDomain.EVENT_TIME
        return self._fire(self._store.event_timers, watermark, piece, timed=True)

    def processing_time(self, now_ms: int, piece: Piece) -> Emitted | None:
        """The results of the processing-time timers due by `now_ms`."""
        self._context.domain = TimeDomain.PROCESSING_TIME
        return self._fire(self._store.processing_timers, now_ms, piece, timed=False)

    def next_processing_time(self) -> int | None:
        """When the next processing-time timer is due."""
        return self._store.processing_timers.next_time()

    def _fire(self, timers: StoredTimers, until: int, piece: Piece, *, timed: bool) -> Emitted | None:
        results: list[Any] = []
        times: list[int] = []
        fired = False
        with closing(self._store.due(timers, until, piece.limit)) as due:
            for timer in due:
                fired, self._context.stamp = True, timer.time
                results.extend(
                    map(isolate, iterated(self._on_timer(timer.time, self._context), self._on_timer))
                )
                times.extend([timer.time] * (len(results) - len(times)))
                if piece.full(len(results)):
                    break
        return (results, times if timed else None) if fired else None
