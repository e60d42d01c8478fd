"""Which subtasks restart together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.mode import RuntimeMode
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Hash, Rebalance, Rescale, Transformation
from tidegate.runtime.schedule.regions import joined, parts, pipelined_regions, running_again
from tidegate.runtime.schedule.slots import allocate

Step = Callable[..., Transformation]


def graph(*ends: Transformation, parallelism: int = 2, mode: RuntimeMode = "STREAMING") -> JobGraph:
    return build_job_graph(build_stream_graph(list(ends), parallelism=parallelism, mode=mode))


def named(groups: list[frozenset[Subtask]]) -> list[set[str]]:
    return [{str(subtask) for subtask in group} for group in groups]


def places(job: JobGraph, task_managers: int) -> dict[Subtask, int]:
    return {subtask: slot.task_manager for subtask, slot in allocate(job, task_managers, 1).items()}


@pytest.mark.spec("003/JM-17", "004/SCH-015")
def test_an_exchange_of_all_with_all_makes_one_region(step: Step) -> None:
    total = step("reduce", step("source", name="words"), name="sum", partition=Hash(abs))

    assert named(pipelined_regions(graph(step("sink", total)))) == [
        {"words-1[0]", "words-1[1]", "sum-1[0]", "sum-1[1]"}
    ]


def test_subtasks_that_exchange_nothing_are_regions_of_their_own(step: Step) -> None:
    apart = step("sink", step("map", step("source", name="numbers"), name="twice"))

    assert named(pipelined_regions(graph(apart))) == [{"numbers-1[0]"}, {"numbers-1[1]"}]


def test_rescaling_connects_only_neighbours(step: Step) -> None:
    wide = step(
        "map", step("source", name="numbers", parallelism=2), name="wide", partition=Rescale(), parallelism=4
    )

    assert named(pipelined_regions(graph(step("sink", wide, parallelism=4)))) == [
        {"numbers-1[0]", "wide-1[0]", "wide-1[1]"},
        {"numbers-1[1]", "wide-1[2]", "wide-1[3]"},
    ]


@pytest.mark.spec("003/JM-17", "004/SCH-015")
def test_exchanges_that_block_cut_regions(step: Step) -> None:
    total = step("reduce", step("source", name="words"), name="sum", partition=Hash(abs))
    job = graph(step("sink", total), mode="BATCH")

    assert named(pipelined_regions(job)) == [{"words-1[0]"}, {"words-1[1]"}, {"sum-1[0]"}, {"sum-1[1]"}]
    assert parts(job, places(job, 2)) == [frozenset(job.subtasks)]


@pytest.fixture
def stages(step: Step) -> JobGraph:
    """A batch job of a source, a total dealt to all, and a sink behind neighbours only."""
    total = step("reduce", step("source", name="words"), name="sum", partition=Hash(abs))
    shown = step("map", total, name="show", partition=Rescale())
    return graph(step("sink", shown), mode="BATCH")


@pytest.mark.spec("003/JM-24")
@pytest.mark.parametrize(
    ("lost", "again"),
    [
        pytest.param({"show-1[0]", "show-1[1]"}, {"show-1[0]", "show-1[1]"}, id="the last stage fails"),
        pytest.param(
            {"sum-1[1]", "show-1[1]"},
            {"sum-1[1]", "show-1[1]"},
            id="a result that one task reads is lost",
        ),
        pytest.param(
            {"words-1[0]", "show-1[0]"},
            {"words-1[0]", "words-1[1]", "sum-1[0]", "sum-1[1]", "show-1[0]", "show-1[1]"},
            id="a result that all tasks read is lost, and finished ones have read it",
        ),
    ],
)
def test_what_reads_a_result_that_is_made_again_runs_again(
    stages: JobGraph, lost: set[str], again: set[str]
) -> None:
    finished = {subtask for subtask in stages.subtasks if str(subtask) not in lost}

    assert {str(subtask) for subtask in running_again(stages, finished)} == again


def pipeline(step: Step, name: str, group: str | None = None) -> Transformation:
    numbers = step("source", name=name, slot_sharing_group=group)
    return step("sink", step("map", numbers, name=f"{name}-map", partition=Rebalance()), name=f"{name}-out")


def test_two_pipelines_in_processes_of_their_own_are_two_parts(step: Step) -> None:
    job = graph(pipeline(step, "a", "left"), pipeline(step, "b", "right"))

    assert named(parts(job, places(job, 4))) == [
        {"a-1[0]", "a-1[1]", "a-map-1[0]", "a-map-1[1]"},
        {"b-1[0]", "b-1[1]", "b-map-1[0]", "b-map-1[1]"},
    ]


def test_pipelines_that_share_a_process_are_one_part(step: Step) -> None:
    job = graph(pipeline(step, "a"), pipeline(step, "b"))

    assert len(pipelined_regions(job)) == 2
    assert parts(job, places(job, 2)) == [frozenset(job.subtasks)]


def test_subtasks_of_one_source_or_sink_are_one_part(step: Step) -> None:
    job = graph(step("sink", step("source", name="numbers")))

    assert len(pipelined_regions(job)) == 2
    assert parts(job, places(job, 2)) == [frozenset(job.subtasks)]


@given(st.lists(st.sets(st.integers(0, 30), min_size=1), max_size=20))
def test_groups_are_joined_exactly_if_members_lead_from_one_to_the_other(groups: list[set[int]]) -> None:
    result = joined(groups)

    members = [member for group in result for member in group]
    assert sorted(members) == sorted(set().union(*groups))
    for group in groups:
        assert sum(group <= found for found in result) == 1
    for found in result:
        reached = {min(found)}
        while grown := {m for group in groups if group & reached for m in group} - reached:
            reached |= grown
        assert reached == found


def test_groups_come_in_the_order_in_which_they_were_seen() -> None:
    assert joined([{3}, {2}, {1}, {1, 3}]) == [frozenset({1, 3}), frozenset({2})]
