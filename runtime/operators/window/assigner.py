"""Base classes of window assigners: which windows a record belongs to, and which windows merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, Protocol, TypeAlias

from tidegate.runtime.operators.window.triggers import Trigger
from tidegate.runtime.operators.window.windows import Merger, TimeWindowSerializer, WindowSerializer
from tidegate.runtime.stream.functions import RuntimeContext
from tidegate.runtime.stream.generics import T, W

__all__ = ["AssignerTools", "MergingWindowAssigner", "WindowAssigner"]


class AssignerTools(Protocol):
    """The context of an assigner."""

    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def get_runtime_context(self) -> RuntimeContext:
        """State of the record's key."""
        ...


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns records to windows; an assigner is shared by all keys and has no state."""

    WindowAssignerContext: TypeAlias = AssignerTools

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: AssignerTools) -> Collection[W]:
        """The windows of a record; an empty list drops the record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """The trigger of its windows unless the program sets one; `env` is the environment of the program."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether event time ends its windows, instead of the clock."""

    def get_window_serializer(self) -> WindowSerializer:
        """The serializer of its windows; by default that of `TimeWindow`."""
        return TimeWindowSerializer()


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows merge."""

    MergeCallback: TypeAlias = Merger

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: Merger) -> None:
        """Call `callback` once for each group of at least two of `windows` that merge."""
