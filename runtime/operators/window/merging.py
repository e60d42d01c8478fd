"""The windows of one key that become one where they meet, and where the contents of each are kept.

When windows become one, the contents stay where the earliest of them kept its own; what the others hold is folded in
there, and only the mapping changes. Pure: it says what is to be done and touches no state.

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
    """Where a new window went: `window` is what it belongs to now, `home` where the contents of that are kept.

    `merged` are the windows that exist no longer, `folded` where they kept contents that belong to `home` now.
    """

    window: Any
    home: Any
    merged: tuple[Any, ...] = ()
    folded: tuple[Any, ...] = ()


class MergingWindows:
    """The windows of one key, each mapped to where its contents are kept."""

    def __init__(self, homes: Mapping[Any, Any], assigner: MergingWindowAssigner) -> None:
        self.homes = dict(homes)
        self._assigner = assigner

    def add(self, window: Any) -> Added:
        """Take in a window, which may join several that exist."""
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
        """Forget a window that ended."""
        self.homes.pop(window, None)


@dataclass(slots=True)
class _Collecting:
    groups: list[tuple[Collection[Any], Any]]

    def merge(self, to_be_merged: Collection[Any], merge_result: Any) -> None:
        self.groups.append((to_be_merged, merge_result))
