"""Broadcast state: the records of one stream reach every subtask and are kept there as a map.

Example:
    >>> from tidegate.datastream import (
    ...     BroadcastProcessFunction,
    ...     MapStateDescriptor,
    ...     StreamExecutionEnvironment,
    ... )
    >>> PRICES = MapStateDescriptor("prices")
    >>> class Price(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value, ctx.get_broadcast_state(PRICES).get(value)
    ...
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(PRICES).put(*value)
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> prices = env.from_collection([("tea", 3)]).broadcast(PRICES)
    >>> orders = env.from_collection(["tea"]).connect(prices).process(Price())
    >>> [(order, price)] = orders.execute_and_collect()  # the price is None if the order came first
    >>> order, price in (3, None)
    ('tea', True)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias

from tidegate.backends.keyed.descriptors import MapStateDescriptor, StateDescriptor
from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import Broadcast, Input, Transformation
from tidegate.runtime.operators.broadcast import BROADCAST_PROCESS, BroadcastStep
from tidegate.runtime.stream.functions import Function, RecordTime, TimerService
from tidegate.runtime.stream.generics import IN1, IN2, KEY, OUT
from tidegate.runtime.stream.tags import OutputTag
from tidegate.types import TypeInformation

if TYPE_CHECKING:
    from tidegate.runtime.operators.operator_state import BroadcastState, ReadOnlyBroadcastState
    from tidegate.runtime.stream.datastream import DataStream
    from tidegate.runtime.stream.environment import StreamExecutionEnvironment

__all__ = [
    "BaseBroadcastProcessFunction",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "KeyedBroadcastProcessFunction",
]


class _ReadOnlyContext(RecordTime, Protocol):
    """The surroundings of a record: it may read what was broadcast."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """What was broadcast so far to this subtask."""
        ...

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def current_watermark(self) -> int:
        """How far event time is."""
        ...


class _Context(RecordTime, Protocol):
    """The surroundings of a broadcast record: it may change the state, in every subtask alike."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """What was broadcast so far to this subtask."""
        ...

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def current_watermark(self) -> int:
        """How far event time is."""
        ...


class _KeyedReadOnlyContext(_ReadOnlyContext, Protocol):
    """The surroundings of a record with a key."""

    def get_current_key(self) -> Any:
        """The canonical key of the record."""
        ...

    def timer_service(self) -> TimerService:
        """Time, and timers of the key."""
        ...


class _KeyedContext(_Context, Protocol):
    """Context of a broadcast record in a keyed broadcast function."""

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
    ) -> None:
        """Call `function(key, state)` for every key of this subtask that has something in a keyed state."""
        ...


class BaseBroadcastProcessFunction(Function, ABC):
    """What functions over records and what was broadcast have in common."""

    Context: TypeAlias = _Context
    ReadOnlyContext: TypeAlias = _ReadOnlyContext
    BaseContext: TypeAlias = _ReadOnlyContext


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Any computation over records and what was broadcast before them."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: _ReadOnlyContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Process a record; return or yield the results."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: _Context
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Handle a broadcast record, in every subtask alike, whatever the order of both streams."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Any computation with state and timers per key over records and what was broadcast before them."""

    Context: TypeAlias = _KeyedContext
    ReadOnlyContext: TypeAlias = _KeyedReadOnlyContext
    OnTimerContext: TypeAlias = _KeyedReadOnlyContext

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: _KeyedReadOnlyContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Process a record; return or yield the results."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: _KeyedContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Handle a broadcast record, in every subtask alike, whatever the order of both streams."""

    def on_timer(
        self, timestamp: int, ctx: _KeyedReadOnlyContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Handle a timer registered for the current key."""


class BroadcastStream:
    """A stream whose records go to every subtask of the step it is connected to; made by `DataStream.broadcast`."""

    def __init__(self, source: Transformation, descriptors: tuple[Any, ...]) -> None:
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor) or descriptor.kind != MapStateDescriptor.kind:
                raise ConfigError(
                    f"broadcast takes MapStateDescriptors, because broadcast state is a map; "
                    f"got {type(descriptor).__name__}"
                )
        names = [descriptor.name for descriptor in descriptors]
        if len(set(names)) != len(names):
            raise ConfigError(f"broadcast states need different names; got {', '.join(names)}")
        self.input = Input(source, Broadcast(), side=1)
        self.descriptors: tuple[MapStateDescriptor, ...] = descriptors


class BroadcastConnectedStream:
    """A stream and a broadcast stream for one function; made by `DataStream.connect`."""

    def __init__(
        self, env: StreamExecutionEnvironment, main: Input, broadcast: BroadcastStream, *, keyed: bool
    ) -> None:
        self._env = env
        self._main = main
        self._broadcast = broadcast
        self._keyed = keyed

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Handle the records of both; takes a `KeyedBroadcastProcessFunction` if the first has keys."""
        from tidegate.runtime.stream.datastream import DataStream, instance_of

        expected: Any = KeyedBroadcastProcessFunction if self._keyed else BroadcastProcessFunction
        step = BroadcastStep(instance_of("process", func, expected), self._broadcast.descriptors)
        inputs = (self._main, self._broadcast.input)
        return DataStream(
            self._env,
            Transformation(BROADCAST_PROCESS, BROADCAST_PROCESS.name, step, inputs, output_type),
        )
