"""Which executions of an epoch's tasks count: pure.

Spark may run a task again, alone, after others have consumed what its first execution sent. If the two executions
differ, records are lost or doubled. So every consumer says whose records it has, and an epoch counts only if all of
them say the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.runtime.spark.messages import Outcome, TaskResult
from tidegate.runtime.spark.shape import Shape

__all__ = ["Disagreement", "winners"]


class Disagreement(Exception):  # noqa: N818  # not an error of anybody: the epoch runs again
    """The tasks of an epoch have consumed different executions; nothing of it may count."""


def winners(shape: Shape, outcomes: Sequence[Outcome]) -> list[TaskResult]:
    """One result per subtask: the execution whose records everybody has.

    Raises:
        Disagreement: there is no such execution for some subtask.
    """
    last = {outcome.result.subtask: outcome.result for outcome in outcomes}
    if len(last) != len(outcomes) or set(last) != set(shape.targets or shape.sources):
        raise Disagreement(f"{len(outcomes)} results for {len(shape.targets or shape.sources)} subtasks")
    if not shape.targets:
        return list(last.values())
    sources = {result.subtask: result for outcome in outcomes for result in outcome.upstream}
    recorded = {subtask: result.task for subtask, result in sources.items()}
    for outcome in outcomes:
        consumed = {header.subtask: header.task for header in outcome.consumed}
        for subtask in shape.sources:
            if subtask not in recorded or consumed.get(subtask) != recorded[subtask]:
                raise Disagreement(
                    f"{outcome.result.subtask} consumed execution {consumed.get(subtask)} of {subtask}, "
                    f"but execution {recorded.get(subtask)} reported"
                )
    return [*sources.values(), *last.values()]
