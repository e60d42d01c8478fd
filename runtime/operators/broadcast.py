"""Operators of broadcast process functions: one input reads broadcast state, the other changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from tidegate.backends.keyed.descriptors import MapStateDescriptor, StateDescriptor
from tidegate.backends.keyed.store import KeyedStore
from tidegate.errors import ConfigError
from tidegate.runtime.operators.context import KeyedContext, OperatorContext, RecordContext
from tidegate.runtime.operators.keyed import KeyedProcess
from tidegate.runtime.operators.operator import Call, Emitted, Operator, Piece, StepInput, StepKind
from tidegate.runtime.operators.operator_state import BroadcastState, ReadOnlyBroadcastState
from tidegate.runtime.stream.functions import Wrapper

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode
    from tidegate.runtime.stream.broadcast import (
        BaseBroadcastProcessFunction,
        BroadcastProcessFunction,
        KeyedBroadcastProcessFunction,
    )

__all__ = ["BROADCAST_PROCESS", "BroadcastStep"]

_AT_ONCE: Final = 1_000
"""Keys that a function is applied to before the cache is trimmed to its size."""


@dataclass(frozen=True)
class BroadcastStep(Wrapper):
    """A function and the broadcast states it may use."""

    function: BroadcastProcessFunction | KeyedBroadcastProcessFunction
    descriptors: tuple[MapStateDescriptor, ...]

    @property
    def functions(self) -> tuple[BaseBroadcastProcessFunction, ...]:
        """The function."""
        return (self.function,)


def _open(node: StreamNode, context: OperatorContext) -> Operator:
    step: BroadcastStep = node.payload
    states = _States(step.descriptors, context)
    if context.keyed:
        return _KeyedBroadcast(step, states, context.keyed_store("needs a key"), context.env.clock.now_ms)
    return _Broadcast(step, states, context.env.clock.now_ms)


BROADCAST_PROCESS: Final = StepKind(
    "broadcast_process",
    _open,
    title="Co-Process-Broadcast",
    inputs=(StepInput(), StepInput("none")),
    side_outputs=True,
    nests=True,
)


class _States:
    """The broadcast states of one operator by name, for both sides."""

    def __init__(self, descriptors: tuple[MapStateDescriptor, ...], context: OperatorContext) -> None:
        self._descriptors = {descriptor.name: descriptor for descriptor in descriptors}
        self._writable = {each.name: context.states.get_broadcast_state(each) for each in descriptors}
        self._readable = {name: state.read_only() for name, state in self._writable.items()}

    def readable(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._readable[self._name(descriptor)]

    def writable(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._writable[self._name(descriptor)]

    def _name(self, descriptor: MapStateDescriptor) -> str:
        if self._descriptors.get(descriptor.name) != descriptor:
            raise ConfigError(
                f"broadcast state {descriptor.name!r} is not one of this step; got {descriptor}; "
                f"expected one of {', '.join(map(str, self._descriptors.values()))}; pass it to broadcast(...)"
            )
        return descriptor.name


class _ReadingContext(RecordContext):
    """The context of a record."""

    def __init__(self, states: _States, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.get_broadcast_state = states.readable


class _KeyedReadingContext(KeyedContext):
    """The context of a record or timer with a key."""

    def __init__(self, states: _States, store: KeyedStore, now_ms: Callable[[], int]) -> None:
        super().__init__(store, now_ms)
        self.get_broadcast_state = states.readable


class _WritingContext(RecordContext):
    """The context of a broadcast record."""

    def __init__(self, states: _States, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.get_broadcast_state = states.writable


class _KeyedWritingContext(_WritingContext):
    """The context of a broadcast record, where the other input has keys."""

    def __init__(self, states: _States, store: KeyedStore, now_ms: Callable[[], int]) -> None:
        super().__init__(states, now_ms)
        self._store = store

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
    ) -> None:
        """Call `function(key, state)` for every key of this subtask with a value in a keyed state."""
        store = self._store
        state = store.state(state_descriptor)
        for number, key in enumerate(store.keys(state_descriptor.name), start=1):
            store.bind(key)
            function(key, state)
            if number % _AT_ONCE == 0:
                store.end_batch()
        store.unbind()


class _Broadcast(Operator):
    """The operator for an input without keys."""

    def __init__(self, step: BroadcastStep, states: _States, now_ms: Callable[[], int]) -> None:
        self._contexts = (_ReadingContext(states, now_ms), _WritingContext(states, now_ms))
        function: Any = step.function
        handlers = (function.process_element, function.process_broadcast_element)
        super().__init__(
            tuple(
                Call("process", handler, context)
                for handler, context in zip(handlers, self._contexts, strict=True)
            )
        )

    def begin(self, watermark: int) -> None:
        """Passed to the function; the operator does not use it."""
        for context in self._contexts:
            context.watermark = watermark

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """Passed to the function; the operator does not use it."""
        self.begin(watermark)
        return None


class _KeyedBroadcast(KeyedProcess):
    """The operator for a keyed input: state and timers belong to the keys of its records."""

    def __init__(
        self, step: BroadcastStep, states: _States, store: KeyedStore, now_ms: Callable[[], int]
    ) -> None:
        function: Any = step.function
        reading = _KeyedReadingContext(states, store, now_ms)
        super().__init__((function.process_element,), function.on_timer, store, reading)
        self._writing = _KeyedWritingContext(states, store, now_ms)
        handle = function.process_broadcast_element

        @wraps(handle)
        def process_broadcast_element(value: Any, context: Any) -> Iterable[Any] | None:
            # A broadcast record has no key: it must not see the key of the record before.
            store.unbind()
            results: Iterable[Any] | None = handle(value, context)
            return results

        self.calls = (*self.calls, Call("process", process_broadcast_element, self._writing))

    def begin(self, watermark: int) -> None:
        """Passed to both methods of the function."""
        super().begin(watermark)
        self._writing.watermark = watermark
