"""Deprecated operations: they work, and warn with their replacement.

The timestamp assigners here came before `WatermarkStrategy`; `fold` before `aggregate`; `split` before side outputs.
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tidegate.backends.keyed.descriptors import AggregatingStateDescriptor, ValueStateDescriptor
from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.operators.rows import shaped
from tidegate.runtime.stream.checkpointed import stateless
from tidegate.runtime.stream.functions import KeyedProcessFunction, Wrapper
from tidegate.runtime.stream.time import Duration
from tidegate.runtime.stream.watermarks import TimestampAssigner, WatermarkGenerator, WatermarkStrategy
from tidegate.types import TypeInformation

if TYPE_CHECKING:
    from tidegate.runtime.stream.datastream import DataStream

__all__ = [
    "AscendingTimestampExtractor",
    "AssignerWithPeriodicWatermarks",
    "AssignerWithPunctuatedWatermarks",
    "BoundedOutOfOrdernessTimestampExtractor",
    "Fold",
    "FoldingStateDescriptor",
    "SplitStream",
    "deprecated",
    "strategy_of",
]


def deprecated(what: str, instead: str) -> None:
    """Warn at the caller of the deprecated method."""
    warnings.warn(f"{what} is deprecated; use {instead}", DeprecationWarning, stacklevel=3)


class AssignerWithPeriodicWatermarks(ABC):
    """Reads timestamps, and is asked for a watermark after each batch and five times a second."""

    @abstractmethod
    def extract_timestamp(self, element: Any, previous_element_timestamp: int) -> int:
        """Event time of the record in milliseconds."""

    @abstractmethod
    def get_current_watermark(self) -> int | None:
        """How far event time is, None if unknown."""


class AssignerWithPunctuatedWatermarks(ABC):
    """Reads timestamps, and is asked after each record whether a watermark stands behind it.

    Example:
        >>> class Marked(AssignerWithPunctuatedWatermarks):
        ...     def extract_timestamp(self, element, previous_element_timestamp):
        ...         return element[0]
        ...
        ...     def check_and_get_next_watermark(self, last_element, extracted_timestamp):
        ...         return extracted_timestamp if last_element[1] else None
    """

    @abstractmethod
    def extract_timestamp(self, element: Any, previous_element_timestamp: int) -> int:
        """Event time of the record in milliseconds."""

    @abstractmethod
    def check_and_get_next_watermark(self, last_element: Any, extracted_timestamp: int) -> int | None:
        """The watermark behind this record, None for none; one that does not go forward is not passed on."""


class BoundedOutOfOrdernessTimestampExtractor(AssignerWithPeriodicWatermarks):
    """The watermark is the newest timestamp less a delay, without the millisecond that `WatermarkStrategy` takes off."""

    def __init__(self, max_out_of_orderness: Duration) -> None:
        self._delay_ms = max_out_of_orderness.to_milliseconds()
        self._newest: int | None = None

    @abstractmethod
    def extract_timestamp(self, element: Any, previous_element_timestamp: int | None = None) -> int:
        """Event time of the record in milliseconds."""

    def get_current_watermark(self) -> int | None:
        """The newest timestamp less the delay."""
        return None if self._newest is None else self._newest - self._delay_ms

    def seen(self, timestamp: int) -> None:
        """Take the timestamp of a record."""
        self._newest = timestamp if self._newest is None else max(self._newest, timestamp)


class AscendingTimestampExtractor(BoundedOutOfOrdernessTimestampExtractor):
    """Timestamps only grow; the watermark is one millisecond behind. A timestamp that goes back is refused."""

    def __init__(self) -> None:
        super().__init__(Duration.of_millis(1))

    @abstractmethod
    def extract_ascending_timestamp(self, element: Any) -> int:
        """Event time of the record in milliseconds."""

    def extract_timestamp(self, element: Any, previous_element_timestamp: int | None = None) -> int:
        """What `extract_ascending_timestamp` answers, if it is not less than before."""
        timestamp = self.extract_ascending_timestamp(element)
        if self._newest is not None and timestamp < self._newest:
            raise RecordError(
                f"record {element!r} has timestamp {timestamp} after one with {self._newest}; expected ascending "
                "timestamps; use WatermarkStrategy.for_bounded_out_of_orderness(...)"
            )
        return timestamp


def strategy_of(
    assigner: AssignerWithPeriodicWatermarks | AssignerWithPunctuatedWatermarks,
) -> WatermarkStrategy:
    """The strategy that does what the assigner says; each subtask works with a copy of it."""
    stateless("assign_timestamps_and_watermarks", assigner)
    if isinstance(assigner, AssignerWithPeriodicWatermarks):
        return WatermarkStrategy(lambda: _Periodic(copy.deepcopy(assigner)))
    return WatermarkStrategy(lambda: _Punctuated(copy.deepcopy(assigner)))


class FoldingStateDescriptor(AggregatingStateDescriptor):
    """One value per key that takes in what is added, from `initial_value` on; ask for it with `get_aggregating_state`.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     texts = FoldingStateDescriptor("texts", "", lambda text, number: f"{text}-{number}")
        >>> texts.get_agg_function().add(1, "start")
        'start-1'
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        initial_value: Any,
        fold_function: Callable[[Any, Any], Any],
        type_info: TypeInformation | None = None,
    ) -> None:
        deprecated("FoldingStateDescriptor(...)", "AggregatingStateDescriptor(...)")
        if not callable(fold_function):
            raise ConfigError(
                f"state {name!r} needs a function of the accumulator and a value; got {type(fold_function).__name__}"
            )
        super().__init__(name, _Folded(initial_value, fold_function), type_info)


class _Folded:
    """A fold as an aggregate whose accumulator is the result."""

    def __init__(self, initial: Any, function: Callable[[Any, Any], Any]) -> None:
        self._initial = initial
        self._function = function

    def create_accumulator(self) -> Any:
        return copy.deepcopy(self._initial)

    def add(self, value: Any, accumulator: Any) -> Any:
        return self._function(accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Fold(Wrapper, KeyedProcessFunction):
    """What a function makes of an initial value and all records of a key so far."""

    def __init__(
        self, initial_value: Any, function: Callable[[Any, Any], Any], folded_type: TypeInformation | None
    ) -> None:
        self._state = ValueStateDescriptor("folded", folded_type, initial_value)
        self._given = function
        self._function = shaped(function, folded_type)

    @property
    def functions(self) -> tuple[Any, ...]:
        """The user's function."""
        return (self._given,)

    def open(self, runtime_context: Any) -> None:
        """Ask for the state."""
        super().open(runtime_context)
        self._folded = runtime_context.get_state(self._state)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Emit the value folded so far."""
        self._folded.update(self._function(self._folded.value(), value))
        yield self._folded.value()


class SplitStream:
    """A stream whose records carry names of outputs; `select` picks them."""

    def __init__(self, stream: DataStream, selector: Callable[[Any], Iterable[str]]) -> None:
        self._stream = stream
        self._selector = selector

    def select(self, *output_names: str) -> DataStream:
        """The records that carry at least one of the names, each once."""
        selector, wanted = self._selector, frozenset(output_names)
        return self._stream.filter(lambda value: not wanted.isdisjoint(selector(value))).name("select")


class _Periodic(WatermarkGenerator, TimestampAssigner):
    asked = "clock"

    def __init__(self, assigner: AssignerWithPeriodicWatermarks) -> None:
        self._assigner = assigner

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self._assigner.extract_timestamp(value, record_timestamp)

    def on_event(self, value: Any, timestamp: int) -> None:
        if isinstance(self._assigner, BoundedOutOfOrdernessTimestampExtractor):
            self._assigner.seen(timestamp)

    def watermark(self) -> int | None:
        return self._assigner.get_current_watermark()

    @property
    def learner(self) -> AssignerWithPeriodicWatermarks:
        return self._assigner


class _Punctuated(WatermarkGenerator, TimestampAssigner):
    asked = "record"

    def __init__(self, assigner: AssignerWithPunctuatedWatermarks) -> None:
        self._assigner = assigner
        self._answer: int | None = None

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self._assigner.extract_timestamp(value, record_timestamp)

    def on_event(self, value: Any, timestamp: int) -> None:
        self._answer = self._assigner.check_and_get_next_watermark(value, timestamp)

    def watermark(self) -> int | None:
        return self._answer

    @property
    def learner(self) -> AssignerWithPunctuatedWatermarks:
        return self._assigner
