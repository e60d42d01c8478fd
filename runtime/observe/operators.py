"""From what subtasks say of themselves to what operators do, and which of them is slow. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegate.ids import Subtask
from tidegate.runtime.observe.figures import OperatorFigures
from tidegate.runtime.task.flow import Flow, back_pressure

__all__ = ["operators_of", "slowest"]

_FULL: Final = 0.5
"""From here on what waits in front of an operator says that it is slow."""


def operators_of(
    flows: Mapping[Subtask, Flow], per_second: Mapping[str, float], now_ms: int
) -> dict[str, OperatorFigures]:
    """The subtasks of each chain taken together.

    Example:
        >>> sums = operators_of({Subtask("sums", 0): Flow("ok", 0.0, 0.1, 0.9, 40, 700)}, {"sums": 20.0}, 1_000)
        >>> sums["sums"]
        OperatorFigures(subtasks=1, records=40, per_second=20.0, held_up=0.0, waiting=0.9, behind_ms=300)
    """
    grouped: dict[str, list[Flow]] = {}
    for subtask, flow in flows.items():
        grouped.setdefault(subtask.vertex, []).append(flow)
    return {
        name: OperatorFigures(
            subtasks=len(each),
            records=sum(flow.records for flow in each),
            per_second=per_second.get(name, 0.0),
            held_up=max(flow.held_up for flow in each),
            waiting=max(flow.receiving for flow in each),
            behind_ms=max((ms for flow in each if (ms := flow.behind_ms(now_ms)) is not None), default=None),
        )
        for name, each in grouped.items()
    }


def slowest(operators: Mapping[str, OperatorFigures]) -> str | None:
    """The operator that input waits for although nothing holds it up; the one with most waiting if there are several.

    Example:
        >>> held_up, slow = OperatorFigures(1, 0, 0.0, 0.9, 0.9, None), OperatorFigures(1, 0, 0.0, 0.0, 0.8, None)
        >>> slowest({"parse": held_up, "sums": slow})
        'sums'
    """
    suspects = {
        name: each.waiting
        for name, each in operators.items()
        if each.waiting >= _FULL and back_pressure(each.held_up) == "ok"
    }
    return max(suspects, key=suspects.__getitem__, default=None)
