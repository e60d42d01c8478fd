"""What tasks of a batch job hand on in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.clock import ManualClock
from tidegate.elements import MAX_WATERMARK, Batch, EndOfInput, Watermark
from tidegate.errors import UnavailableError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobEdge, JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Rebalance, Transformation
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.results import ResultGate, Results

Step = Callable[..., Transformation]


@pytest.fixture
def job(step: Step) -> JobGraph:
    """Two sources in front of two maps."""
    shown = step("map", step("source", name="numbers"), name="show", partition=Rebalance())
    return build_job_graph(build_stream_graph([step("sink", shown)], parallelism=2, mode="BATCH"))


@pytest.fixture
def edge(job: JobGraph) -> JobEdge:
    """The exchange between them."""
    return job.vertices["numbers-1"].outputs[0]


class Control(list[object]):
    """What a receiver hears."""

    credit = Credit()

    def send(self, element: object) -> None:
        self.append(element)


def gate(results: Results, edge: JobEdge, index: int, *heard: Control, reusable: bool = True) -> ResultGate:
    writer = results.writer(edge, index)
    return ResultGate(index, dict(enumerate(heard)), writer, ManualClock(), lambda: reusable)


def test_receivers_hear_of_the_end_when_their_records_can_be_read(tmp_path: Path, edge: JobEdge) -> None:
    results, heard = Results((tmp_path,)), (Control(), Control())
    writing = gate(results, edge, 0, *heard)

    writing.emit(Batch([1, 2, 3, 4]))
    writing.broadcast(Watermark(MAX_WATERMARK))
    assert heard == ([], [])
    with pytest.raises(UnavailableError, match=r"result of numbers-1\[0\] cannot be read"):
        list(results.batches(edge, 0, 0))

    writing.broadcast(EndOfInput())
    assert heard == ([EndOfInput()], [EndOfInput()])
    found = [value for target in (0, 1) for each in results.batches(edge, 0, target) for value in each.values]
    assert sorted(found) == [1, 2, 3, 4]


def test_only_results_that_are_complete_and_can_be_used_again_are_finished(
    tmp_path: Path, job: JobGraph, edge: JobEdge
) -> None:
    results = Results((tmp_path,))
    unfinished = gate(results, edge, 0, Control(), Control())
    unfinished.emit(Batch([1]))
    unfinished.close()
    gate(results, edge, 1, Control(), Control(), reusable=False).broadcast(EndOfInput())
    assert results.finished(job) == frozenset()

    gate(results, edge, 1, Control(), Control()).broadcast(EndOfInput())
    assert results.finished(job) == {Subtask("numbers-1", 1)}

    results.keep_only(job.vertices.values(), frozenset())
    assert (results.finished(job), list(tmp_path.iterdir())) == (frozenset(), [])


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda path: path.unlink(), id="gone"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-5]), id="cut short"),
        pytest.param(lambda path: path.write_bytes(b"\0" + path.read_bytes()[1:]), id="a record changed"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\0"), id="its trailer changed"),
    ],
)
def test_a_result_that_cannot_be_read_is_removed_so_that_its_task_runs_again(
    tmp_path: Path, job: JobGraph, edge: JobEdge, harm: Callable[[Path], object]
) -> None:
    results = Results((tmp_path,))
    writing = gate(results, edge, 0, Control(), Control())
    writing.emit(Batch([1, 2, 3, 4]))
    writing.broadcast(EndOfInput())
    (path,) = tmp_path.iterdir()
    harm(path)

    with pytest.raises(UnavailableError, match="its task runs again in the next attempt"):
        [list(results.batches(edge, 0, target)) for target in (0, 1)]
    assert results.finished(job) == frozenset()
    assert list(tmp_path.iterdir()) == []
