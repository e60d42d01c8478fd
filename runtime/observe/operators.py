"""Operator statistics, computed from those of subtasks, and the bottleneck among them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegate.ids import Subtask
from tidegate.runtime.observe.run_snapshot import OperatorStats
from tidegate.runtime.task.flow import Flow, back_pressure

__all__ = ["condition", "operators_of", "slowest"]

_FULL: Final = 0.5
"""From this share on, a full input queue marks an operator as slow, and working time marks a source as busy."""

_IDLE: Final = 0.1
"""Below this share of work a source waits for data."""


def operators_of(
    flows: Mapping[Subtask, Flow], per_second: Mapping[str, float], now_ms: int
) -> dict[str, OperatorStats]:
    """The subtasks of each chain taken together.

    Example:
        >>> sums = operators_of({Subtask("sums", 0): Flow("ok", 0.0, 0.1, 0.9, 40, 700)}, {"sums": 20.0}, 1_000)
        >>> sums["sums"]
        OperatorStats(subtasks=1, records=40, per_second=20.0, held_up=0.0, waiting=0.9, behind_ms=300, reading=None)
    """
    grouped: dict[str, list[Flow]] = {}
    for subtask, flow in flows.items():
        grouped.setdefault(subtask.vertex, []).append(flow)
    return {
        name: OperatorStats(
            subtasks=len(each),
            records=sum(flow.records for flow in each),
            per_second=per_second.get(name, 0.0),
            held_up=max(flow.held_up for flow in each),
            waiting=max(flow.receiving for flow in each),
            behind_ms=max((ms for flow in each if (ms := flow.behind_ms(now_ms)) is not None), default=None),
            reading=max((flow.reading for flow in each if flow.reading is not None), default=None),
        )
        for name, each in grouped.items()
    }


def slowest(operators: Mapping[str, OperatorStats]) -> str | None:
    """The bottleneck: an operator with a full input queue and no backpressure; the fullest queue if there are several.

    Without one, the busiest source: the steps after it wait for it.

    Example:
        >>> held_up, slow = OperatorStats(1, 0, 0.0, 0.9, 0.9, None), OperatorStats(1, 0, 0.0, 0.0, 0.8, None)
        >>> slowest({"parse": held_up, "sums": slow})
        'sums'
        >>> reads = OperatorStats(1, 0, 0.0, held_up=0.0, waiting=0.0, behind_ms=None, reading=0.95)
        >>> slowest({"read": reads}), slowest({"read": reads, "sums": slow})
        ('read', 'sums')
    """
    free = {name: each for name, each in operators.items() if back_pressure(each.held_up) == "ok"}
    waited_for = {name: each.waiting for name, each in free.items() if each.waiting >= _FULL}
    reading = {name: each.reading for name, each in free.items() if (each.reading or 0.0) >= _FULL}
    suspects = waited_for or reading
    return max(suspects, key=lambda name: suspects[name] or 0.0, default=None)


def condition(figures: OperatorStats) -> str:
    """The main activity of an operator, as a short text.

    Example:
        >>> condition(OperatorStats(1, 0, 0.0, held_up=0.0, waiting=0.9, behind_ms=None))
        'busy, 90% of its queue full'
        >>> condition(OperatorStats(1, 0, 0.0, held_up=0.7, waiting=0.9, behind_ms=None))
        'backpressured 70%'
        >>> condition(OperatorStats(1, 0, 0.0, held_up=0.0, waiting=0.1, behind_ms=None))
        'ok'

    A source has no input in front of it. It is busy while it reads and works, and idle while it waits for data:

        >>> condition(OperatorStats(1, 0, 0.0, held_up=0.0, waiting=0.0, behind_ms=None, reading=0.95))
        'busy, reads 95% of the time'
        >>> condition(OperatorStats(1, 0, 0.0, held_up=0.0, waiting=0.0, behind_ms=None, reading=0.02))
        'idle'
    """
    if back_pressure(figures.held_up) != "ok":
        return f"backpressured {figures.held_up:.0%}"
    if figures.reading is not None and figures.reading >= _FULL:
        return f"busy, reads {figures.reading:.0%} of the time"
    if figures.reading is not None and figures.reading < _IDLE:
        return "idle"
    return f"busy, {figures.waiting:.0%} of its queue full" if figures.waiting >= _FULL else "ok"
