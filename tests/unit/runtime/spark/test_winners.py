"""An epoch counts only if everybody consumed the same executions."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, strategies as st

from tidegate.ids import Subtask
from tidegate.runtime.spark.messages import Outcome, TaskResult, digest
from tidegate.runtime.spark.shape import Shape
from tidegate.runtime.spark.winners import ConflictingExecutions, winners

SOURCES = (Subtask("in", 0), Subtask("in", 1))
TOTALS = (Subtask("sum", 0), Subtask("sum", 1), Subtask("sum", 2))
RANKS = (Subtask("rank", 0), Subtask("rank", 1))
SHAPE = Shape((SOURCES, TOTALS, RANKS))
Vectors = list[tuple[int, ...]]


def outcomes(totals: Vectors, ranks: Vectors) -> list[Outcome]:
    """Two readers that executions 7 and 8 report for, and what those behind them have consumed."""
    read = [Outcome(TaskResult(source, 7 + n)) for n, source in enumerate(SOURCES)]
    added = [Outcome(TaskResult(TOTALS[n], 10 + n), digest(vector)) for n, vector in enumerate(totals)]
    ranked = [Outcome(TaskResult(RANKS[n], 20 + n), digest(vector)) for n, vector in enumerate(ranks)]
    return [*ranked, *read, *added]


def test_agreement_at_all_levels_names_one_execution_per_subtask() -> None:
    found = winners(SHAPE, outcomes([(7, 8)] * 3, [(10, 11, 12)] * 2))

    assert {result.subtask: result.task for result in found} == {
        **dict(zip(SOURCES, (7, 8), strict=True)),
        **dict(zip(TOTALS, (10, 11, 12), strict=True)),
        **dict(zip(RANKS, (20, 21), strict=True)),
    }


def test_without_an_exchange_every_source_counts_for_itself() -> None:
    found = winners(Shape((SOURCES,)), [Outcome(TaskResult(subtask, 1)) for subtask in SOURCES])

    assert [result.subtask for result in found] == list(SOURCES)


@given(st.tuples(*[st.tuples(st.integers(6, 8), st.integers(7, 9))] * 3))
def test_only_the_executions_that_reported_count(vectors: tuple[tuple[int, int], ...]) -> None:
    found = outcomes(list(vectors), [(10, 11, 12)] * 2)

    if set(vectors) == {(7, 8)}:
        assert len(winners(SHAPE, found)) == 7
    else:
        with pytest.raises(
            ConflictingExecutions,
            match=r"sum\[\d\] consumed other executions of in\[0\] to in\[1\] than those that reported",
        ):
            winners(SHAPE, found)


def test_a_repeat_in_the_middle_is_seen_by_those_behind_it() -> None:
    with pytest.raises(
        ConflictingExecutions,
        match=r"rank\[1\] consumed other executions of sum\[0\] to sum\[2\] than those that reported",
    ):
        winners(SHAPE, outcomes([(7, 8)] * 3, [(10, 11, 12), (10, 11, 99)]))


def test_a_task_that_has_not_heard_of_all_does_not_count() -> None:
    with pytest.raises(
        ConflictingExecutions,
        match=r"rank\[0\] consumed other executions of sum\[0\] to sum\[2\] than those that reported",
    ):
        winners(SHAPE, outcomes([(7, 8)] * 3, [(10, 11), (10, 11, 12)]))


@pytest.mark.parametrize("change", [-1, 1], ids=["one-is-missing", "one-is-there-twice"])
def test_every_subtask_answers_once(change: int) -> None:
    found = outcomes([(7, 8)] * 3, [(10, 11, 12)] * 2)
    found = found[:-1] if change < 0 else [*found, dataclasses.replace(found[0])]

    with pytest.raises(ConflictingExecutions, match=rf"{7 + change} results for 7 subtasks"):
        winners(SHAPE, found)
