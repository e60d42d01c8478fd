"""Window joins and co-groups: two streams matched by key within windows.

Example:
    >>> from tidegate.common import Duration, WatermarkStrategy
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> from tidegate.datastream.window import TumblingEventTimeWindows
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    >>> orders = env.from_collection([("ada", 100), ("bob", 200)]).assign_timestamps_and_watermarks(times)
    >>> visits = env.from_collection([("ada", 150), ("ada", 2_000)]).assign_timestamps_and_watermarks(times)
    >>> both = orders.join(visits).where(lambda order: order[0]).equal_to(lambda visit: visit[0])
    >>> pairs = both.window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    >>> list(pairs.apply(lambda order, visit: (order[0], order[1], visit[1])).execute_and_collect())
    [('ada', 100, 150)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tidegate.errors import ConfigError
from tidegate.runtime.operators.window.assigner import WindowAssigner
from tidegate.runtime.operators.window.evictors import Evictor
from tidegate.runtime.operators.window.triggers import Trigger
from tidegate.runtime.stream.functions import Wrapper
from tidegate.runtime.stream.key_selectors import selector
from tidegate.runtime.stream.results import iterated
from tidegate.runtime.stream.time import Duration
from tidegate.runtime.stream.windowed import WindowedStream
from tidegate.runtime.stream.windows import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    WindowFunction,
)
from tidegate.types import TypeInformation

if TYPE_CHECKING:
    from tidegate.runtime.stream.datastream import DataStream

__all__ = ["CoGroupedStreams", "JoinedStreams"]

Sided = tuple[int, Any]
"""A record with the number of its stream, 0 or 1."""


class _TwoStreams:
    """Collects the keys of both streams: `where`, `equal_to`, `window`."""

    _step: str

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._streams = (first, second)
        self._selectors: list[Callable[[Any], Any]] = []

    def where(self, key_selector: Any, key_type: TypeInformation | None = None) -> Self:
        """Read the key of a record of the first stream."""
        self._selectors = [selector("where", key_selector)]
        self._key_type = key_type
        return self

    def equal_to(self, key_selector: Any, key_type: TypeInformation | None = None) -> Self:
        """Read the key of a record of the second stream."""
        if len(self._selectors) != 1:
            raise ConfigError(f"{self._step}: call where(...) once, then equal_to(...)")
        self._selectors.append(selector("equal_to", key_selector))
        return self

    def _windowed(self, assigner: WindowAssigner) -> WindowedStream:
        if len(self._selectors) != 2:
            raise ConfigError(f"{self._step} needs the keys of both streams; call where(...).equal_to(...)")
        first, second = (stream.map(_Side(side)) for side, stream in enumerate(self._streams))
        return first.union(second).key_by(_SidedKey(*self._selectors), self._key_type).window(assigner)


class JoinedStreams(_TwoStreams):
    """Pairs the records of two streams: `join(...).where(...).equal_to(...).window(...).apply(...)`."""

    _step = "join"

    def window(self, assigner: WindowAssigner) -> WindowedJoin:
        """Let records meet that are in the same window."""
        return WindowedJoin(self._windowed(assigner))


class CoGroupedStreams(_TwoStreams):
    """Groups the records of two streams: `co_group(...).where(...).equal_to(...).window(...).apply(...)`."""

    _step = "co_group"

    def window(self, assigner: WindowAssigner) -> WindowedCoGroup:
        """Let records meet that are in the same window."""
        return WindowedCoGroup(self._windowed(assigner))


class _WindowedPair:
    """Two streams cut into the same windows; all their records are kept until a window ends."""

    def __init__(self, windowed: WindowedStream) -> None:
        self._stream = windowed

    def trigger(self, trigger: Trigger) -> Self:
        """Fire when `trigger` says so, instead of when the assigner's own does."""
        self._stream.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Remove records of either stream from a window that fires."""
        self._stream.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | Duration) -> Self:
        """Keep event-time windows for this long after they fired first, for records that come late."""
        self._stream.allowed_lateness(time_ms)
        return self


class WindowedJoin(_WindowedPair):
    """Pairs of records that are in the same window."""

    def apply(
        self,
        function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call `function` with each pair; what has no partner is not seen."""
        return self._stream.apply(_Pairs(_callable("join", function, "join")), output_type).name("join")


class WindowedCoGroup(_WindowedPair):
    """The records of both streams that are in the same window."""

    def apply(
        self,
        function: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any]],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call `function` with the records of both streams, of which either may be none."""
        grouped = _Groups(_callable("co_group", function, "co_group"))
        return self._stream.apply(grouped, output_type).name("co_group")


@dataclass(frozen=True)
class _Side:
    side: int

    def __call__(self, value: Any) -> Sided:
        return self.side, value


@dataclass(frozen=True)
class _SidedKey:
    first: Callable[[Any], Any]
    second: Callable[[Any], Any]

    def __call__(self, sided: Sided) -> Any:
        return (self.first, self.second)[sided[0]](sided[1])


@dataclass(frozen=True)
class _Both(Wrapper, WindowFunction):
    """Calls a function of two streams."""

    function: Any

    @property
    def functions(self) -> tuple[Any, ...]:
        """The user's function."""
        return (self.function,)


class _Pairs(_Both):
    def apply(self, key: Any, window: Any, inputs: Iterable[Sided]) -> Iterator[Any]:
        first, second = _parted(inputs)
        flat, join = (
            isinstance(self.function, FlatJoinFunction),
            getattr(self.function, "join", self.function),
        )
        for one in first:
            for other in second:
                if flat:
                    yield from iterated(join(one, other), join)
                else:
                    yield join(one, other)


class _Groups(_Both):
    def apply(self, key: Any, window: Any, inputs: Iterable[Sided]) -> Iterable[Any]:
        co_group = getattr(self.function, "co_group", self.function)
        return iterated(co_group(*_parted(inputs)), co_group)


def _parted(inputs: Iterable[Sided]) -> tuple[list[Any], list[Any]]:
    sides: tuple[list[Any], list[Any]] = ([], [])
    for side, value in inputs:
        sides[side].append(value)
    return sides


def _callable(step: str, given: Any, method: str) -> Any:
    if not callable(getattr(given, method, given)):
        raise ConfigError(f"apply of a {step} takes a function of two arguments; got {type(given).__name__}")
    return given
