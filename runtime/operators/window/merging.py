"""Merging windows of one key, and the namespace of the contents of each.

When windows merge, the contents stay in the namespace of the earliest; the contents of the others are merged into it,
and only the mapping changes. Pure: it returns what is to be done and changes no state.

Example:
    >>> from tidegate.runtime.operators.window.sessions import EventTimeSessionWindows
    >>> from tidegate.runtime.operators.window.windows import TimeWindow
    >>> a, b, bridge = TimeWindow(0, 10), TimeWindow(15, 25), TimeWindow(8, 18)
    >>> windows = MergingWindows({a: a, b: b}, EventTimeSessionWindows(10))
    >>> added = windows.add(bridge)
    >>> added.window, added.home, added.folded
    (TimeWindow(start=0, end=25), TimeWindow(start=0, end=10), (TimeWindow(start=15, end=25),))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import InternalError
from tidegate.runtime.operators.window.assigner import MergingWindowAssigner

__all__ = ["Added", "MergingWindows"]


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding a window: `window` is the merged window, `home` the namespace of its contents.

    `merged` are the windows that no longer exist, `folded` the namespaces whose contents belong to `home` now.
    """

    window: Any
    home: Any
    merged: tuple[Any, ...] = ()
    folded: tuple[Any, ...] = ()


class MergingWindows:
    """The windows of one key, each mapped to the namespace of its contents."""

    def __init__(self, homes: Mapping[Any, Any], assigner: MergingWindowAssigner) -> None:
        self.homes = dict(homes)
        self._assigner = assigner

    def add(self, window: Any) -> Added:
        """Add a window, which may merge several existing ones."""
        groups: list[tuple[Collection[Any], Any]] = []
        self._assigner.merge_windows({**self.homes, window: window}, _Collecting(groups))
        joined = next((group for group in groups if window in group[0]), None)
        if joined is None:
            self.homes.setdefault(window, window)
            return Added(window, self.homes[window])
        members, result = joined
        existing = sorted({member for member in members if member in self.homes})
        if not existing:
            raise InternalError(f"{window!r} is merged with windows that do not exist; please report it")
        places = [self.homes.pop(member) for member in existing]
        home = min(places)
        self.homes[result] = home
        return Added(
            result,
            home,
            tuple(member for member in existing if member != result),
            tuple(place for place in places if place != home),
        )

    def retire(self, window: Any) -> None:
        """Remove a window that ended."""
        self.homes.pop(window, None)


@dataclass(slots=True)
class _Collecting:
    groups: list[tuple[Collection[Any], Any]]

    def merge(self, to_be_merged: Collection[Any], merge_result: Any) -> None:
        self.groups.append((to_be_merged, merge_result))
