"""Typing protocols of user functions, for editors and type checkers.

A class counts by its methods and a callable by its signature: neither has to name its types twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from tidegate.runtime.stream.generics import IN, KEY, OUT, Handled, T

__all__ = [
    "AsyncInvokes",
    "CoFlatMaps",
    "CoMaps",
    "CoProcesses",
    "Evaluates",
    "Filter",
    "FlatMap",
    "Map",
    "Processes",
    "Reduce",
    "Result",
    "Select",
]

IN_contra = TypeVar("IN_contra", contravariant=True)
FIRST_contra = TypeVar("FIRST_contra", contravariant=True)
SECOND_contra = TypeVar("SECOND_contra", contravariant=True)
OUT_co = TypeVar("OUT_co", covariant=True)
S = TypeVar("S")


class Maps(Protocol[IN_contra, OUT_co]):
    """A `MapFunction`."""

    def map(self, value: IN_contra, /) -> OUT_co:
        """One record for one."""
        ...


class Filters(Protocol[IN_contra]):
    """A `FilterFunction`."""

    def filter(self, value: IN_contra, /) -> bool:
        """Whether a record stays."""
        ...


class FlatMaps(Protocol[IN_contra, OUT_co]):
    """A `FlatMapFunction`."""

    def flat_map(self, value: IN_contra, /) -> Iterable[OUT_co] | None:
        """Any number of records for one."""
        ...


class Selects(Protocol[IN_contra, OUT_co]):
    """A `KeySelector`."""

    def get_key(self, value: IN_contra, /) -> OUT_co:
        """The key of a record."""
        ...


class Reduces(Protocol[S]):
    """A `ReduceFunction`."""

    def reduce(self, value1: S, value2: S, /) -> S:
        """One record for two."""
        ...


class Processes(Protocol[IN_contra, OUT_co]):
    """A `ProcessFunction` or `KeyedProcessFunction`."""

    def process_element(self, value: IN_contra, ctx: Any, /) -> Handled[OUT_co]:
        """Any number of records for one."""
        ...


class CoMaps(Protocol[FIRST_contra, SECOND_contra, OUT_co]):
    """A `CoMapFunction`."""

    def map1(self, value: FIRST_contra, /) -> OUT_co:
        """One record for one of the first stream."""
        ...

    def map2(self, value: SECOND_contra, /) -> OUT_co:
        """One record for one of the second stream."""
        ...


class CoFlatMaps(Protocol[FIRST_contra, SECOND_contra, OUT_co]):
    """A `CoFlatMapFunction`."""

    def flat_map1(self, value: FIRST_contra, /) -> Iterable[OUT_co] | None:
        """Any number of records for one of the first stream."""
        ...

    def flat_map2(self, value: SECOND_contra, /) -> Iterable[OUT_co] | None:
        """Any number of records for one of the second stream."""
        ...


class CoProcesses(Protocol[FIRST_contra, SECOND_contra, OUT_co]):
    """A `CoProcessFunction` or `KeyedCoProcessFunction`."""

    def process_element1(self, value: FIRST_contra, ctx: Any, /) -> Handled[OUT_co]:
        """Any number of records for one of the first stream."""
        ...

    def process_element2(self, value: SECOND_contra, ctx: Any, /) -> Handled[OUT_co]:
        """Any number of records for one of the second stream."""
        ...


class Result(Protocol[OUT_co]):
    """An `AggregateFunction`, by what it comes to."""

    @property
    def get_result(self) -> Callable[..., OUT_co]:
        """The result of an accumulator."""
        ...


class WindowProcesses(Protocol[OUT_co]):
    """A `ProcessWindowFunction` or `ProcessAllWindowFunction`."""

    @property
    def process(self) -> Callable[..., Iterable[OUT_co]]:
        """Any number of records for a window."""
        ...


class WindowApplies(Protocol[OUT_co]):
    """A `WindowFunction` or `AllWindowFunction`."""

    @property
    def apply(self) -> Callable[..., Iterable[OUT_co]]:
        """Any number of records for a window."""
        ...


class AsyncInvokes(Protocol[IN_contra, S]):
    """An `AsyncFunction`."""

    def async_invoke(self, value: IN_contra, /) -> Awaitable[list[S]]:
        """Any number of records for one."""
        ...


if TYPE_CHECKING:
    Map: TypeAlias = Callable[[IN], OUT] | Maps[IN, OUT]
    Filter: TypeAlias = Callable[[IN], Any] | Filters[IN]
    FlatMap: TypeAlias = Callable[[IN], Iterable[OUT] | None] | FlatMaps[IN, OUT]
    Select: TypeAlias = Callable[[IN], KEY] | Selects[IN, KEY]
    Reduce: TypeAlias = Callable[[T, T], T] | Reduces[T]
    Evaluates: TypeAlias = Callable[..., Iterable[OUT]] | WindowProcesses[OUT] | WindowApplies[OUT]
else:
    Map = Filter = FlatMap = Select = Reduce = Evaluates = Any
