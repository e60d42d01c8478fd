"""From chains to parallel subtasks and their attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.ids import Subtask
from tidegate.runtime.graph.execution_graph import ExecutionGraph
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import StreamGraph, build_stream_graph
from tidegate.runtime.graph.transformations import Hash, Partition, Rescale, Transformation
from tidegate.runtime.schedule.slots import allocate
from tidegate.runtime.schedule.states import TaskState

Step = Callable[..., Transformation]


def word_count(step: Step, parallelism: int) -> StreamGraph:
    words = step("map", step("source", name="words"), name="pair")
    total = step("reduce", words, name="sum", partition=Hash(abs))
    return build_stream_graph([step("sink", total, name="print")], parallelism=parallelism)


def exchange(step: Step, partition: Partition, sources: int, targets: int) -> JobGraph:
    after = step("map", step("source", parallelism=sources), partition=partition, parallelism=targets)
    return build_job_graph(build_stream_graph([step("sink", after, parallelism=targets)], parallelism=1))


def test_word_count_at_two_has_four_steps_two_vertices_and_four_subtasks(step: Step) -> None:
    steps = word_count(step, 2)
    job = build_job_graph(steps)
    execution = ExecutionGraph(job)

    assert [node.name for node in steps.nodes.values()] == ["words", "pair", "sum", "print"]
    assert [vertex.name for vertex in job.vertices.values()] == [
        "Source: words -> pair",
        "sum -> Sink: print",
    ]
    assert len(execution.vertices) == 4


def test_every_graph_is_made_of_the_one_before_it(step: Step) -> None:
    steps = word_count(step, 5)
    job = build_job_graph(steps)

    assert (len(steps.nodes), len(steps.edges), len(job.vertices)) == (4, 3, 2)
    assert [each.subtask for each in ExecutionGraph(job).vertices] == [
        Subtask(vertex, index) for vertex in job.vertices for index in range(5)
    ]


@pytest.mark.parametrize(
    ("sources", "targets", "reached"),
    [
        (2, 4, [[0, 1], [2, 3]]),
        (4, 2, [[0], [0], [1], [1]]),
        (2, 6, [[0, 1, 2], [3, 4, 5]]),
        (2, 3, [[0], [1, 2]]),
    ],
)
def test_rescale_connects_neighbours_only(
    step: Step, sources: int, targets: int, reached: list[list[int]]
) -> None:
    job = exchange(step, Rescale(), sources, targets)
    (edge,) = job.vertices["source-1"].outputs

    assert edge.distribution == "pointwise"
    assert [list(edge.reached_from(source)) for source in range(sources)] == reached
    assert all(index in edge.reached_from(s) for index in range(targets) for s in edge.reaching(index))


def test_what_is_dealt_to_all_is_connected_to_all(step: Step) -> None:
    (edge,) = exchange(step, Hash(abs), 2, 2).vertices["source-1"].outputs

    assert edge.distribution == "all-to-all"
    assert edge.reaching(1) == [0, 1]


@pytest.mark.spec("004/AX-043")
def test_a_second_attempt_remembers_the_first(step: Step) -> None:
    job = build_job_graph(word_count(step, 1))
    slots = allocate(job, 1, 1)
    execution = ExecutionGraph(job)
    words, total = execution.vertices

    def states() -> list[str]:
        return [vertex.state for vertex in (words, total)]

    seen = [states()]
    first, other = execution.attempt(slots)
    seen.append(states())
    onwards: tuple[TaskState, ...] = ("deploying", "running")
    for state in onwards:
        for each in (first, other):
            each.become(state)
        seen.append(states())
    first.end("failed")
    other.become("canceling")
    seen.append(states())
    other.end("canceled")
    seen.append(states())
    (second,) = execution.attempt({words.subtask: slots[words.subtask]})
    second.become("deploying")
    second.become("running")
    second.end("finished")
    second.end("canceled")
    seen.append(states())

    assert seen == [
        ["created", "created"],
        ["scheduled", "scheduled"],
        ["deploying", "deploying"],
        ["running", "running"],
        ["failed", "canceling"],
        ["failed", "canceled"],
        ["finished", "canceled"],
    ]
    assert (words.executions, total.executions) == ([first, second], [other])
    assert [each.id.attempt for each in words.executions] == [1, 2]


def test_each_attempt_of_a_subtask_has_an_id_of_its_own(step: Step) -> None:
    job = build_job_graph(word_count(step, 2))
    execution, slots = ExecutionGraph(job), allocate(job, 1, 2)

    first, second = execution.attempt(slots), execution.attempt(slots)

    ids = [each.id for each in (*first, *second)]
    assert len(set(ids)) == 8
    assert [each.attempt for each in ids] == [1] * 4 + [2] * 4
    assert len({each.label for each in ids}) == 2
    assert [each.executions for each in execution.vertices] == [
        list(pair) for pair in zip(first, second, strict=True)
    ]
    assert ExecutionGraph(job).id != execution.id
