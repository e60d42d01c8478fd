"""Panes: open windows to which the generated loop adds records without a call.

With the default trigger of tumbling windows and sessions by event time, only the first record of a window changes more
than its contents (timers, the mapping of sessions); later records are only added until the window fires. So the
operator keeps the newest such window of each key as a pane, and the generated loop adds records to it.

A session becomes longer with almost every record. Only its pane holds the new end at first; it is written to state and
timers at a barrier, before a row leaves the cache, when the timer of the old end is due, and when a record of the key
belongs to another window. A pane holds nothing that is not in state by then, so a restored operator, which has no panes,
continues without a difference.

Example:
    >>> from tidegate.common import Duration
    >>> from tidegate.runtime.operators.window.assigners import TumblingEventTimeWindows
    >>> from tidegate.runtime.operators.window.triggers import CountTrigger, EventTimeTrigger
    >>> minutes = TumblingEventTimeWindows.of(Duration.of_minutes(1))
    >>> has_panes(minutes, EventTimeTrigger()), has_panes(minutes, CountTrigger(5))
    (True, False)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tidegate.runtime.operators.operator import Shortcut
from tidegate.runtime.operators.window.assigner import WindowAssigner
from tidegate.runtime.operators.window.assigners import TumblingEventTimeWindows
from tidegate.runtime.operators.window.contents import WindowContents
from tidegate.runtime.operators.window.sessions import EventTimeSessionWindows
from tidegate.runtime.operators.window.triggers import EventTimeTrigger, Trigger
from tidegate.runtime.operators.window.windows import TimeWindow

__all__ = ["Pane", "has_panes", "shortcut"]

_ASSIGNERS: Final = (TumblingEventTimeWindows, EventTimeSessionWindows)


@dataclass(slots=True)
class Pane:
    """A window of a key as it is in state and timers, and the range of timestamps that belong to it.

    Its contents are in slots of `values`; the combined value must be of class `kind`, otherwise the pane is closed.
    """

    window: TimeWindow
    home: TimeWindow
    first: int
    last: int
    values: list[Any]
    kind: type

    @staticmethod
    def of(window: TimeWindow, home: TimeWindow, values: list[Any], slot: int, gap: int) -> Pane:
        """The pane of a window that has not fired; a record right at the end of a session still belongs to it."""
        last = window.end if gap else window.end - 1
        return Pane(window, home, window.start, last, values, type(values[slot]))

    @property
    def grew(self) -> bool:
        """Whether it is longer than the window in state and timers."""
        return self.last > self.window.end


def has_panes(assigner: WindowAssigner, trigger: Trigger) -> bool:
    """Whether assigner and trigger are of classes that treat all records of a window alike; subclasses may not."""
    return type(assigner) in _ASSIGNERS and type(trigger) is EventTimeTrigger


def shortcut(
    panes: dict[Any, Pane], kept: WindowContents, gap: int, replace: Callable[[Any, Any], None]
) -> Shortcut:
    """The lines of the generated loop that add a record to its pane; `replace` is called with a value of another class."""
    add, names = kept.adding()
    grow = (f"    if t + {gap} > pane.last: pane.last = t + {gap}",) if gap else ()
    return Shortcut(
        (
            "pane = panes(row.key)",
            "if pane is not None and pane.first <= t <= pane.last:",
            *grow,
            *(f"    {line}" for line in add),
            "    continue",
        ),
        {"panes": panes.get, "replace": replace, **names},
    )
