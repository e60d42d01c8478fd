"""Windows that wait for their end: a record that falls into one of them has to be added, and nothing else.

With the usual trigger of tumbling windows and sessions of event time, all that the first record of a window brought
about (its timers, its place in the mapping of sessions) holds for those that follow until the window fires. So the
operator remembers the newest such window of each key as a pane, and the generated loop adds records to it by itself.

A session becomes longer with almost every record. Its pane alone knows at first; state and timers are told when they
are asked: at a barrier, before a row leaves the cache, when the timer of the old end is due, and when a record of the
key falls elsewhere. What a pane knows is never more than what the records since its opening said, so a restored
operator, which has no panes, goes on as if there had been none.

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
    """A window of a key, as state and timers know it, and the moments whose records belong to it.

    Its contents are in slots of `values`; what combines records answers `kind`, or the pane is given up.
    """

    window: TimeWindow
    home: TimeWindow
    first: int
    last: int
    values: list[Any]
    kind: type

    @staticmethod
    def of(window: TimeWindow, home: TimeWindow, values: list[Any], slot: int, gap: int) -> Pane:
        """The pane of a window that did not fire yet; a record right at the end of a session still belongs to it."""
        last = window.end if gap else window.end - 1
        return Pane(window, home, window.start, last, values, type(values[slot]))

    @property
    def grew(self) -> bool:
        """Whether it is longer than state and timers know."""
        return self.last > self.window.end


def has_panes(assigner: WindowAssigner, trigger: Trigger) -> bool:
    """Whether records of one window mean the same to assigner and trigger; subclasses may differ."""
    return type(assigner) in _ASSIGNERS and type(trigger) is EventTimeTrigger


def shortcut(
    panes: dict[Any, Pane], kept: WindowContents, gap: int, replace: Callable[[Any, Any], None]
) -> Shortcut:
    """The lines of the generated loop that add a record to its pane; `replace` takes what is not of the pane's kind."""
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
