"""An epoch counts only if everybody consumed the same executions."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, strategies as st

from tidegate.ids import Subtask
from tidegate.runtime.spark.messages import Header, Outcome, TaskResult
from tidegate.runtime.spark.shape import Shape
from tidegate.runtime.spark.winners import Disagreement, winners

SOURCES = (Subtask("in", 0), Subtask("in", 1))
TARGETS = (Subtask("sum", 0), Subtask("sum", 1), Subtask("sum", 2))
SHAPE = Shape(SOURCES, TARGETS)


def outcome(target: int, *executions: int) -> Outcome:
    """What a target returns that consumed these executions; the result of source n travels with target n."""
    headers = tuple(Header(SOURCES[n], task, False, False) for n, task in enumerate(executions))
    upstream = tuple(TaskResult(h.subtask, h.task) for n, h in enumerate(headers) if n == target)
    return Outcome(TaskResult(TARGETS[target], 100 + target), headers, upstream)


def test_agreement_names_one_execution_per_subtask() -> None:
    found = winners(SHAPE, [outcome(0, 7, 8), outcome(1, 7, 8), outcome(2, 7, 8)])

    assert {result.subtask: result.task for result in found} == {
        **dict(zip(SOURCES, (7, 8), strict=True)),
        **dict(zip(TARGETS, (100, 101, 102), strict=True)),
    }


def test_without_an_exchange_every_source_counts_for_itself() -> None:
    found = winners(Shape(SOURCES, ()), [Outcome(TaskResult(subtask, 1)) for subtask in SOURCES])

    assert [result.subtask for result in found] == list(SOURCES)


@given(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 3))
def test_only_equal_vectors_count(vectors: tuple[tuple[int, int], ...]) -> None:
    outcomes = [outcome(target, *vector) for target, vector in enumerate(vectors)]

    if len(set(vectors)) == 1:
        assert len(winners(SHAPE, outcomes)) == 5
    else:
        with pytest.raises(Disagreement, match=r"sum\[\d\] consumed execution \d of in\[\d\], but execution"):
            winners(SHAPE, outcomes)


def test_records_of_an_execution_that_did_not_report_do_not_count() -> None:
    silent = [dataclasses.replace(each, upstream=()) for each in map(outcome, (0, 1, 2), (7,) * 3, (8,) * 3)]

    with pytest.raises(Disagreement, match=r"consumed execution 7 of in\[0\], but execution None reported"):
        winners(SHAPE, silent)


@pytest.mark.parametrize("targets", [(0, 1), (0, 1, 1)], ids=["one-is-missing", "one-is-there-twice"])
def test_every_subtask_answers_once(targets: tuple[int, ...]) -> None:
    with pytest.raises(Disagreement, match=rf"{len(targets)} results for 3 subtasks"):
        winners(SHAPE, [outcome(target, 7, 8) for target in targets])
