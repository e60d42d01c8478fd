"""Selection of the task executions that count in an epoch. Pure.

Spark may run a task again, alone, after others have consumed what its first execution sent. If the two executions
differ, records are lost or doubled. So every task reports the executions that it consumed, and an epoch counts only if at
each level all tasks consumed the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tidegate.runtime.spark.messages import Outcome, TaskResult, digest
from tidegate.runtime.spark.shape import Shape

__all__ = ["ConflictingExecutions", "has_no_losers", "winners"]


class ConflictingExecutions(Exception):  # noqa: N818  # not a fault: the epoch runs again
    """The tasks of an epoch have consumed different executions, so its results are dropped."""


def has_no_losers(results: Sequence[TaskResult], since: int | None) -> bool:
    """Whether Spark has started only these executions since `since`, so that there are no executions that lost.

    Spark numbers executions consecutively.

    Example:
        >>> from tidegate.ids import Subtask
        >>> results = [TaskResult(Subtask("totals", number), 7 + number) for number in range(3)]
        >>> has_no_losers(results, since=6), has_no_losers(results, since=5), has_no_losers(results[1:], since=6)
        (True, False, False)
    """
    begun = sorted(result.task for result in results)
    return since is not None and begun == list(range(since + 1, since + 1 + len(begun)))


def winners(shape: Shape, outcomes: Sequence[Outcome]) -> list[TaskResult]:
    """One result per subtask: the execution that all receivers consumed.

    Raises:
        ConflictingExecutions: there is no such execution for some subtask.
    """
    found = {outcome.result.subtask: outcome for outcome in outcomes}
    expected = {subtask for level in shape.levels for subtask in level}
    if len(found) != len(outcomes) or set(found) != expected:
        raise ConflictingExecutions(f"{len(outcomes)} results for {len(expected)} subtasks")
    for senders, receivers in pairwise(shape.levels):
        reported = digest(found[sender].result.task for sender in senders)
        for receiver in receivers:
            if found[receiver].consumed != reported:
                raise ConflictingExecutions(
                    f"{receiver} consumed other executions of {senders[0]} to {senders[-1]} than those that reported"
                )
    return [outcome.result for outcome in outcomes]
