"""Windows: identifiers under which records are kept; a window object holds no records.

Example:
    >>> window = TimeWindow(0, 5_000)
    >>> window.max_timestamp(), window.intersects(TimeWindow(5_000, 9_000)), window.cover(TimeWindow(5_000, 9_000))
    (4999, True, TimeWindow(start=0, end=9000))
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Protocol

from tidegate.elements import MAX_WATERMARK

__all__ = [
    "CountWindow",
    "CountWindowSerializer",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "Merger",
    "TimeWindow",
    "TimeWindowSerializer",
    "Window",
    "WindowSerializer",
]

_LONG: Final = struct.Struct(">q")
_TWO_LONGS: Final = struct.Struct(">qq")


class Merger(Protocol):
    """Callback for groups of windows to merge."""

    def merge(self, to_be_merged: Collection[Any], merge_result: Any) -> None:
        """`to_be_merged` are replaced by `merge_result`."""
        ...


class Window(ABC):
    """Identifies a group of records; equal windows are the same window, so subclasses define equality and a hash."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The last timestamp that belongs to it."""


@dataclass(frozen=True, order=True)
class TimeWindow(Window):
    """An interval of milliseconds, from `start` on, before `end`."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The last millisecond before its end."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two overlap or touch."""
        return self.start <= other.end and other.start <= self.end

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window around both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Start of the window of `window_size` that `timestamp` falls into, also before 1970."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: Merger) -> None:
        """Call `callback` with each group that overlaps or touches, and the window around it."""
        groups: list[list[TimeWindow]] = []
        around: list[TimeWindow] = []
        for window in sorted(windows):
            if around and around[-1].intersects(window):
                groups[-1].append(window)
                around[-1] = around[-1].cover(window)
            else:
                groups.append([window])
                around.append(window)
        for group, merged in zip(groups, around, strict=True):
            if len(group) > 1:
                callback.merge(group, merged)


@dataclass(frozen=True)
class CountWindow(Window):
    """A window that ends by a number of records; `id` counts from 0 per key."""

    id: int

    def max_timestamp(self) -> int:
        """The largest timestamp: it does not end by time."""
        return MAX_WATERMARK


@dataclass(frozen=True)
class GlobalWindow(Window):
    """The one window that all records of a key belong to."""

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """The largest timestamp: it does not end by time."""
        return MAX_WATERMARK


class WindowSerializer(ABC):
    """Serializer of one window class, for state and timers; the bytes must not be empty."""

    @abstractmethod
    def serialize(self, element: Any, stream: BytesIO) -> None:
        """Append the bytes of a window."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> Any:
        """Read a window back."""


class TimeWindowSerializer(WindowSerializer):
    """Start and end, eight bytes each."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        """Append the bytes of a window."""
        stream.write(self.encode(element))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        """Read a window back."""
        return self.decode(stream.read(16))

    @staticmethod
    def encode(window: TimeWindow) -> bytes:
        """The bytes of a window, without a stream."""
        return _TWO_LONGS.pack(window.start, window.end)

    @staticmethod
    def decode(data: bytes) -> TimeWindow:
        """Read a window from bytes."""
        return TimeWindow(*_TWO_LONGS.unpack(data))


class CountWindowSerializer(WindowSerializer):
    """The id in eight bytes."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        """Append the bytes of a window."""
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        """Read a window back."""
        return CountWindow(*_LONG.unpack(stream.read(8)))


class GlobalWindowSerializer(WindowSerializer):
    """One byte."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        """Append the bytes of a window."""
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        """Read a window back."""
        stream.read(1)
        return GlobalWindow()
