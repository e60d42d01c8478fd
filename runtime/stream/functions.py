"""User functions and their contexts.

Any callable serves where a function class is asked for; the classes add `open` and `close`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeAlias

from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.folding import AggregatingState, ReducingState
from tidegate.backends.keyed.list_state import ListState
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.keyed.row import ValueState
from tidegate.checks import shorten
from tidegate.errors import RecordError
from tidegate.runtime.accumulators import Accumulator
from tidegate.runtime.metrics import MetricGroup
from tidegate.runtime.stream.aggregations import Aggregation
from tidegate.runtime.stream.generics import ACC, IN, IN1, IN2, KEY, OUT, Handled, T
from tidegate.runtime.stream.tags import OutputTag
from tidegate.runtime.stream.time_characteristic import TimeDomain
from tidegate.types import TypeInformation

__all__ = [
    "AggregateFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "MapFunction",
    "MapWithState",
    "OnTimerContext",
    "Partitioner",
    "ProcessContext",
    "ProcessFunction",
    "RecordTime",
    "ReduceFunction",
    "RuntimeContext",
    "TimerService",
    "Wrapper",
    "as_callable",
]


class FileCache(Protocol):
    """Files that every worker has a copy of."""

    def get_file(self, name: str) -> str:
        """The path of this worker's copy of what was registered as `name`."""
        ...


class ProgramContext(Protocol):
    """The part of a runtime context that concerns neither state nor place."""

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A parameter given to the whole program."""
        ...

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Show in the job's result what is added to `accumulator`; one for all that use the name."""
        ...

    def get_metrics_group(self) -> MetricGroup:
        """Metrics of this function in this subtask."""
        ...

    def get_distributed_cache(self) -> FileCache:
        """Files that the program registered."""
        ...


class RuntimeContext(ProgramContext, Protocol):
    """What a function knows about where it runs, and its state."""

    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel instances this is, from 0."""
        ...

    def get_number_of_parallel_subtasks(self) -> int:
        """How many parallel instances there are."""
        ...

    def get_max_number_of_parallel_subtasks(self) -> int:
        """How many parallel instances there could be: one for each key group."""
        ...

    def get_task_name(self) -> str:
        """The name of the operator."""
        ...

    def get_task_name_with_subtasks(self) -> str:
        """The name of the operator, and which of its instances this is, from 1."""
        ...

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value per key; this and the other states only behind `key_by`, only in `open`."""
        ...

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""
        ...

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map per key."""
        ...

    def get_ordered_map_state(self, state_descriptor: OrderedMapStateDescriptor) -> OrderedMapState[Any, Any]:
        """A map per key, in the order of its keys."""
        ...

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """What all values added to a key come to."""
        ...

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An accumulator per key."""
        ...


class Function:
    """Base of all user functions with a life cycle."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once per subtask before the first record, also after a restore."""

    def close(self) -> None:
        """Called once per subtask at the end, also after an error."""


class Wrapper(Function, ABC):
    """A step built around functions of the user: opens and closes those of them that have a life cycle."""

    @property
    @abstractmethod
    def functions(self) -> tuple[Any, ...]:
        """What the user gave to the step."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's functions."""
        for function in self.functions:
            if isinstance(function, Function):
                function.open(runtime_context)

    def close(self) -> None:
        """Close the user's functions."""
        for function in self.functions:
            if isinstance(function, Function):
                function.close()


class MapFunction(Function, ABC, Generic[IN, OUT]):
    """One record in, one record out."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """The record that replaces `value`."""


class FilterFunction(Function, ABC, Generic[IN]):
    """Keeps some records."""

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Whether `value` stays."""


class FlatMapFunction(Function, ABC, Generic[IN, OUT]):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT]:
        """The records that replace `value`."""


class KeySelector(ABC, Generic[IN, KEY]):
    """Says which key a record belongs to; it has no life cycle, because a key must come from the record alone."""

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """The key; must depend on `value` alone."""


class TimerService(Protocol):
    """Time, and calls at a later one for the current key."""

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def current_watermark(self) -> int:
        """How far event time is."""
        ...

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the clock reaches `timestamp`; registering twice is once."""
        ...

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp`; registering twice is once."""
        ...

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a processing-time timer of the current key."""
        ...

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget an event-time timer of the current key."""
        ...


class RecordTime(Protocol):
    """When a record happened and what time it is; valid during the call only."""

    def timestamp(self) -> int | None:
        """The record's event time, if it has one."""
        ...

    def timer_service(self) -> TimerService:
        """Time; timers only behind `key_by`."""
        ...


class ProcessContext(RecordTime, Protocol):
    """The record's surroundings on a keyed stream."""

    def get_current_key(self) -> Any:
        """The canonical key of the record."""
        ...


class OnTimerContext(ProcessContext, Protocol):
    """The surroundings of a timer."""

    def time_domain(self) -> TimeDomain:
        """Which time the timer follows."""
        ...


class KeyedProcessFunction(Function, ABC, Generic[KEY, IN, OUT]):
    """Any computation with state and timers per key.

    Its methods may be `async def`: then records of different keys are worked on at once, and state is used by
    `await state.async_value()` and the like.

    Example:
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen", default=0))
        ...
        ...     def process_element(self, value, ctx):
        ...         self.seen.update(self.seen.value() + 1)
        ...         yield ctx.get_current_key(), self.seen.value()
    """

    Context: TypeAlias = ProcessContext
    OnTimerContext: TypeAlias = OnTimerContext

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessContext) -> Handled[OUT | tuple[OutputTag, Any]]:
        """Process a record; return or yield the results, or None."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Handled[OUT | tuple[OutputTag, Any]]:
        """Handle a timer registered for the current key."""


class ProcessFunction(Function, ABC, Generic[IN, OUT]):
    """Any computation without a key: it sees timestamps and time, and has side outputs."""

    Context: TypeAlias = RecordTime

    @abstractmethod
    def process_element(self, value: IN, ctx: RecordTime) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Process a record; return or yield the results, `(tag, value)` for a side output."""


class ReduceFunction(Function, ABC, Generic[T]):
    """Combines two records into one of the same kind."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """What `value1`, all records so far, and `value2`, the next, come to."""


class MapWithState(Wrapper, KeyedProcessFunction):
    """Calls a function with each record and what it made of the state of its key last, None at first."""

    def __init__(self, function: Callable[[Any, Any], tuple[Any, Any]], state_type: TypeInformation | None):
        self._function = function
        self._descriptor = ValueStateDescriptor("mapped", state_type)

    @property
    def functions(self) -> tuple[Any, ...]:
        """The user's function."""
        return (self._function,)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the state."""
        super().open(runtime_context)
        self._state = runtime_context.get_state(self._descriptor)

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        """Emit the result; None as state forgets the key."""
        answer = self._function(value, self._state.value())
        if type(answer) is not tuple or len(answer) != 2:
            raise RecordError(
                f"map_with_state: the function returned {shorten(answer)}; expected (result, state), with state None to clear it"
            )
        result, state = answer
        if state is None:
            self._state.clear()
        else:
            self._state.update(state)
        return (result,)


class AggregateFunction(Function, ABC, Generic[IN, ACC, OUT]):
    """Combines records into an accumulator and makes a result of it.

    Example:
        >>> class Average(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return 0, 0
        ...
        ...     def add(self, value, accumulator):
        ...         return accumulator[0] + value, accumulator[1] + 1
        ...
        ...     def get_result(self, accumulator):
        ...         return accumulator[0] / accumulator[1]
        ...
        ...     def merge(self, acc_a, acc_b):
        ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """The accumulator of no records."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator with a record more."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """What the records in an accumulator come to."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """The accumulator of the records of both; called where windows merge."""


class CoMapFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """One record out for each record of either of two streams."""

    @abstractmethod
    def map1(self, value: IN1) -> OUT:
        """The record that replaces one of the first stream."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT:
        """The record that replaces one of the second stream."""


class CoFlatMapFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Any number of records out for each record of either of two streams."""

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT]:
        """The records that replace one of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT]:
        """The records that replace one of the second stream."""


class CoProcessFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Any computation over two streams without keys."""

    Context: TypeAlias = RecordTime

    @abstractmethod
    def process_element1(self, value: IN1, ctx: RecordTime) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Handle a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: RecordTime) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Handle a record of the second stream."""


class KeyedCoProcessFunction(Function, ABC, Generic[KEY, IN1, IN2, OUT]):
    """Any computation with state and timers per key over two streams with the same keys."""

    Context: TypeAlias = ProcessContext
    OnTimerContext: TypeAlias = OnTimerContext

    @abstractmethod
    def process_element1(self, value: IN1, ctx: ProcessContext) -> Handled[OUT | tuple[OutputTag, Any]]:
        """Handle a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: ProcessContext) -> Handled[OUT | tuple[OutputTag, Any]]:
        """Handle a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Handled[OUT | tuple[OutputTag, Any]]:
        """Handle a timer registered for the current key."""


class Partitioner(ABC, Generic[KEY]):
    """Says which subtask gets a record."""

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """An index from 0, below `num_partitions`."""


_METHODS: tuple[tuple[type[Any], str], ...] = (
    (MapFunction, "map"),
    (FilterFunction, "filter"),
    (FlatMapFunction, "flat_map"),
    (KeySelector, "get_key"),
    (KeyedProcessFunction, "process_element"),
    (ProcessFunction, "process_element"),
    (ReduceFunction, "reduce"),
    (Partitioner, "partition"),
    (Aggregation, "combination"),
)


def as_callable(function: Any) -> Callable[..., Any]:
    """The bound method of a function class, or the callable itself."""
    for cls, method in _METHODS:
        if isinstance(function, cls):
            bound: Callable[..., Any] = getattr(function, method)
            return bound
    return function  # type: ignore[no-any-return] # a plain callable, checked when the step was built
