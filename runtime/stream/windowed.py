"""Windowed streams: trigger, lateness and function of a window operation.

Example:
    >>> from tidegate.common import Duration, WatermarkStrategy
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> from tidegate.datastream.window import TumblingEventTimeWindows
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    >>> clicks = env.from_collection([("ada", 100), ("ada", 900), ("bob", 950), ("ada", 1_200)])
    >>> ones = clicks.assign_timestamps_and_watermarks(times).map(lambda click: (click[0], 1))
    >>> windows = ones.key_by(lambda one: one[0]).window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    >>> sorted(windows.sum(1).execute_and_collect())
    [('ada', 1), ('ada', 2), ('bob', 1)]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, overload

from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import Input, Transformation
from tidegate.runtime.operators.lifecycle import user_functions
from tidegate.runtime.operators.window.assigner import MergingWindowAssigner, WindowAssigner
from tidegate.runtime.operators.window.assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.runtime.operators.window.evictors import CountEvictor, Evictor
from tidegate.runtime.operators.window.folding import Aggregating, Folding, FromInitial, Reducing
from tidegate.runtime.operators.window.operator import WINDOW
from tidegate.runtime.operators.window.output import OutputMode
from tidegate.runtime.operators.window.triggers import CountTrigger, NeverTrigger, PurgingTrigger, Trigger
from tidegate.runtime.operators.window.windowing import Windowing
from tidegate.runtime.stream.aggregations import Aggregation
from tidegate.runtime.stream.checkpointed import one_stateful, stateless
from tidegate.runtime.stream.functions import AggregateFunction, as_callable
from tidegate.runtime.stream.generics import R, T
from tidegate.runtime.stream.shapes import Evaluates, Reduce, Result
from tidegate.runtime.stream.tags import OutputTag
from tidegate.runtime.stream.time import Duration
from tidegate.runtime.stream.time_characteristic import TimeCharacteristic
from tidegate.runtime.stream.windows import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from tidegate.runtime.unsupported_api import UnsupportedApi
from tidegate.types import TypeInformation, result_type

if TYPE_CHECKING:
    from tidegate.runtime.stream.datastream import DataStream
    from tidegate.runtime.stream.environment import StreamExecutionEnvironment

__all__ = ["AllWindowedStream", "WindowedStream", "counted", "time_windows"]


class _Windowed(UnsupportedApi, Generic[T]):
    """What windows with and without keys have in common."""

    _functions: tuple[type[Any], ...]
    """The accepted classes of window functions."""
    _parallelism: int | None = None

    def __init__(self, env: StreamExecutionEnvironment, source: Input, assigner: WindowAssigner) -> None:
        self._env = env
        self._source = source
        self._assigner = stateless("window", _given("window", assigner, WindowAssigner))
        self._trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0
        self._late_tag: OutputTag | None = None
        self._mode = OutputMode.UPDATE

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Where the program started."""
        return self._env

    def get_input_type(self) -> TypeInformation | None:
        """The type of the records, None if it is not known."""
        return self._source.transformation.output_type

    def trigger(self, trigger: Trigger) -> Self:
        """Fire when `trigger` says so, instead of when the assigner's own does."""
        self._trigger = stateless("trigger", _given("trigger", trigger, Trigger))
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise ConfigError(
                f"{type(trigger).__name__} cannot be used with session windows, because they merge; "
                "use a trigger whose can_merge() is true"
            )
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Remove records from a window that fires; every record is kept until then."""
        self._evictor = stateless("evictor", _given("evictor", evictor, Evictor))
        return self

    def allowed_lateness(self, time_ms: int | Duration) -> Self:
        """Keep event-time windows for this long after they fired first, for records that come late."""
        lateness = time_ms.to_milliseconds() if isinstance(time_ms, Duration) else time_ms
        if type(lateness) is not int or lateness < 0:
            raise ConfigError(f"the allowed lateness is {time_ms!r}; expected milliseconds, at least 0")
        self._lateness = lateness
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send what comes too late for its windows to a side output, instead of dropping and counting it."""
        self._late_tag = _given("side_output_late_data", output_tag, OutputTag)
        return self

    def output_mode(self, mode: OutputMode | Literal["update", "append", "complete"]) -> Self:
        """What is emitted when windows fire again: `update`, which is the default, `append` or `complete`."""
        try:
            self._mode = OutputMode(mode)
        except ValueError as error:
            raise ConfigError(f"the output mode is {mode!r}; expected update, append or complete") from error
        if self._mode is OutputMode.COMPLETE and isinstance(self._assigner, MergingWindowAssigner):
            raise ConfigError(
                "session windows do not support output mode complete, because they merge; use update or append"
            )
        return self

    @overload
    def reduce(self, reduce_function: Reduce[T]) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: Reduce[T],
        window_function: Evaluates[R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Combine the records of a window as they come; `window_function` then sees what they came to."""
        if not callable(as_callable(reduce_function)):
            raise ConfigError(f"reduce takes a function of two records; got {type(reduce_function).__name__}")
        kept = self.get_input_type()
        if window_function is None:
            return self._then(Reducing(reduce_function, kept), None, output_type or kept)
        function = self._checked("reduce", window_function)
        return self._then(Reducing(reduce_function, kept), function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: Result[R],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: Result[Any],
        window_function: Evaluates[R],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the records of a window as they come; `window_function` then sees the result."""
        folding = Aggregating(_given("aggregate", aggregate_function, AggregateFunction), accumulator_type)
        function = None if window_function is None else self._checked("aggregate", window_function)
        return self._then(folding, function, output_type)

    def fold(
        self,
        initial_value: Any,
        function: Callable[[Any, Any], Any],
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call `function` with what was made so far, at first `initial_value`, and each record of a window.

        Raises:
            ConfigError: the windows merge, and two folded values cannot be merged.
        """
        if isinstance(self._assigner, MergingWindowAssigner):
            raise ConfigError(
                "fold cannot be used with session windows, because they merge; use aggregate(...)"
            )
        if not callable(function):
            raise ConfigError(f"fold takes a function of two values; got {type(function).__name__}")
        if window_function is None:
            kept = output_type or result_type(function)
            return self._then(FromInitial(function, initial_value, kept), None, kept)
        seen_by = self._checked("fold", window_function)
        return self._then(FromInitial(function, initial_value, result_type(function)), seen_by, output_type)

    def apply(
        self, window_function: Evaluates[R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Call a window function with all records of a window that fires."""
        return self._then(None, self._checked("apply", window_function), output_type)

    def process(
        self, process_window_function: Evaluates[R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Call a window function with all records of a window that fires, with time and state."""
        return self._then(None, self._checked("process", process_window_function), output_type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Sum a field over each window."""
        return self.reduce(Aggregation("sum", position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """The least value of a field in each window."""
        return self.reduce(Aggregation("min", position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """The greatest value of a field in each window."""
        return self.reduce(Aggregation("max", position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """The record with the least value of a field in each window."""
        return self.reduce(Aggregation("min_by", position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """The record with the greatest value of a field in each window."""
        return self.reduce(Aggregation("max_by", position_to_max_by))

    def _checked(self, step: str, function: Any) -> Any:
        if isinstance(function, self._functions):
            return function
        if callable(function) and not isinstance(function, _WINDOW_FUNCTIONS):
            return function
        expected = " or ".join(cls.__name__ for cls in self._functions)
        raise ConfigError(f"{step} takes a {expected} or a function; got {type(function).__name__}")

    def _then(
        self, folding: Folding | None, function: Any, output_type: TypeInformation | None
    ) -> DataStream:
        from tidegate.runtime.stream.datastream import DataStream

        trigger = self._trigger or self._assigner.get_default_trigger(self._env)
        if isinstance(trigger, NeverTrigger):
            warnings.warn(
                "a global window without a trigger never fires: it keeps its records and emits no result; call "
                "trigger(...), for example with CountTrigger.of(100)",
                UserWarning,
                stacklevel=3,
            )
        windowing = Windowing(
            self._assigner,
            trigger,
            folding,
            function,
            self._evictor,
            self._lateness,
            self._late_tag,
            self._mode,
            self.get_input_type(),
        )
        one_stateful("window", *user_functions(windowing))
        step = Transformation(WINDOW, WINDOW.name, windowing, (self._source,), output_type)
        step.label = windowing.label
        step.parallelism = self._parallelism
        return DataStream(self._env, step)


class WindowedStream(_Windowed[T]):
    """A keyed stream cut into windows, for each key apart."""

    _functions = (WindowFunction, ProcessWindowFunction)


class AllWindowedStream(_Windowed[T]):
    """A stream cut into windows that hold the records of all subtasks; one subtask does all the work."""

    _functions = (AllWindowFunction, ProcessAllWindowFunction)
    _parallelism = 1


Windowed = TypeVar("Windowed", bound=_Windowed[Any])


def counted(windowed: Windowed, size: int, slide: int = 0) -> Windowed:
    """Fire a global window by the number of its records; without `slide` each record is in one window."""
    if slide == 0:
        return windowed.trigger(PurgingTrigger.of(CountTrigger.of(size)))
    return windowed.evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))


def time_windows(
    characteristic: TimeCharacteristic, size: Duration, slide: Duration | None = None
) -> WindowAssigner:
    """What the shortcut `time_window` means under a time characteristic."""
    by_clock = characteristic is TimeCharacteristic.ProcessingTime
    if slide is None:
        return TumblingProcessingTimeWindows.of(size) if by_clock else TumblingEventTimeWindows.of(size)
    return (SlidingProcessingTimeWindows if by_clock else SlidingEventTimeWindows).of(size, slide)


_WINDOW_FUNCTIONS = (AllWindowFunction, ProcessAllWindowFunction, WindowFunction, ProcessWindowFunction)


def _given(step: str, given: Any, expected: type[Any]) -> Any:
    if not isinstance(given, expected):
        raise ConfigError(f"{step} takes a {expected.__name__}; got {type(given).__name__}")
    return given
