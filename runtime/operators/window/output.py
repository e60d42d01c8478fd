"""Output modes of windows that fire more than once: every result, only the first, or the whole table each time.

Rows of the table belong to the key; a complete table keeps the results of all windows forever.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

from tidegate.backends.keyed.descriptors import MapStateDescriptor, ValueStateDescriptor
from tidegate.backends.keyed.store import KeyedStore
from tidegate.runtime.operators.window.codec import WindowCodec

__all__ = ["OutputMode", "Rows", "rows_of"]

Rows: TypeAlias = Callable[[Any, list[Any]], list[tuple[Any, int]]]
"""Returns what is emitted, with timestamps, for a window and its results."""


class OutputMode(Enum):
    """The output mode of windows: what is emitted when they fire.

    Example:
        >>> OutputMode("append")
        <OutputMode.APPEND: 'append'>
    """

    UPDATE = "update"
    """New and changed results; the receiver must replace an earlier result by a later one."""
    APPEND = "append"
    """The first result of each window; it is not updated."""
    COMPLETE = "complete"
    """The newest results of all windows of the key, each time."""


def rows_of(mode: OutputMode, store: KeyedStore, codec: WindowCodec) -> Rows:
    """The output function of a mode; the window is the one that the store is bound to."""
    match mode:
        case OutputMode.UPDATE:
            return _timed
        case OutputMode.APPEND:
            told = store.state(ValueStateDescriptor("window:told"), namespaced=True)
            return lambda window, results: _first(told, window, results)
        case OutputMode.COMPLETE:
            table = store.state(MapStateDescriptor("window:table"))
            return lambda window, results: _whole(table, codec, window, results)


def _timed(window: Any, results: list[Any]) -> list[tuple[Any, int]]:
    time = window.max_timestamp()
    return [(result, time) for result in results]


def _first(told: Any, window: Any, results: list[Any]) -> list[tuple[Any, int]]:
    if told.value():
        return []
    told.update(True)
    return _timed(window, results)


def _whole(table: Any, codec: WindowCodec, window: Any, results: list[Any]) -> list[tuple[Any, int]]:
    table.put(codec.encode(window), results)
    return [row for at, rows in sorted(table.items()) for row in _timed(codec.decode(at), rows)]
