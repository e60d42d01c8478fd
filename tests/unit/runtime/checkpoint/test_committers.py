"""Whoever coordinates commits through the sinks of the program, or removes what nobody decided."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tidegate.backends.storage import LocalStorage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.collection import CollectionSource, CollectSink, read_collected
from tidegate.elements import Batch
from tidegate.errors import CommitFailedError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, Subtask
from tidegate.runtime.checkpoint.committers import Committers
from tidegate.runtime.checkpoint.manifest import Unsettled
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.graph.job_graph import build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Input, Transformation
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, GlobalCommitter, WriterContext

LINEAGE, OUT = LineageId("lineage"), OperatorUid("out")


@pytest.fixture
def sink(tmp_path: Path) -> CollectSink:
    return CollectSink(str(tmp_path))


@pytest.fixture
def committers(tmp_path: Path, sink: CollectSink) -> Committers:
    return over(sink, tmp_path)


def over(sink: CollectSink, tmp_path: Path) -> Committers:
    """The committers of a program with this sink."""
    source = Transformation(SOURCE, "in", CollectionSource([1]))
    end = Transformation(SINK, "out", sink, (Input(source),), uid=OUT)
    pipeline = Pipeline(LocalStorage(tmp_path / "state"), PipelineId("orders"), RunId("run"), SYSTEM_CLOCK)
    pipeline.acquire(lambda: LINEAGE, fresh=False, say=print)
    return Committers(
        pipeline,
        build_job_graph(build_stream_graph([end], parallelism=1)),
        SYSTEM_CLOCK,
        "memory:",
        take_over=False,
    )


def prepare(sink: CollectSink, value: int, attempt: str) -> Committable:
    """Work of the sink's only subtask that is durable and not visible."""
    subtask = Subtask("in", 0)
    context = WriterContext(
        PipelineId("orders"), OUT, subtask, 1, LINEAGE, Branch(0), attempt, (), SYSTEM_CLOCK
    )
    writer = sink.open_writer(context)
    writer.write(Batch([value]))
    prepared = writer.prepare(CheckpointId(value))
    writer.close()
    assert prepared is not None
    return Committable(OUT, 0, CheckpointId(value), *prepared)


def test_what_is_committed_is_visible_and_answered_again(committers: Committers, sink: CollectSink) -> None:
    work = prepare(sink, 7, "a")

    assert committers.commit((work,)) == ((work, CommitAnswer.COMMITTED),)
    assert committers.commit((work,)) == ((work, CommitAnswer.ALREADY_COMMITTED),)
    assert list(read_collected(sink.directory)) == [7]


def test_aborting_removes_what_is_not_visible_and_counts_it(
    committers: Committers, sink: CollectSink
) -> None:
    committers.commit((prepare(sink, 1, "a"),))
    prepare(sink, 2, "a")
    prepare(sink, 2, "b")

    assert committers.abort(None) == {OUT: 2}
    assert committers.abort(None) == {}
    assert list(read_collected(sink.directory)) == [1]


def test_work_of_a_sink_that_is_gone_is_not_forgotten(committers: Committers) -> None:
    work = Committable(OperatorUid("gone"), 0, CheckpointId(1), b"", "a file", 1)

    with pytest.raises(
        CommitFailedError,
        match=r"sink 'gone' holds decided work .* has no such sink; give the sink this uid again",
    ):
        committers.commit((work,))


def test_what_is_left_to_do_for_a_whole_sink_is_done_with_the_work_of_that_sink(tmp_path: Path) -> None:
    sink = Announcing(str(tmp_path))
    mine, of_another = prepare(sink, 7, "a"), replace(prepare(sink, 7, "b"), uid=OperatorUid("another"))
    with closing(over(sink, tmp_path)) as committers:
        committers.finish(Unsettled(CheckpointId(7), (mine, of_another)))
        committers.finish(Unsettled(CheckpointId(8), ()))
        committers.finish(Unsettled(CheckpointId(9), (of_another,)))

    assert (tmp_path / "announced").read_text() == "checkpoint 7: 1\n"


class Announcing(CollectSink):
    """Notes the checkpoints that are over."""

    def open_global_committer(self, context: CommitterContext) -> GlobalCommitter:
        return Announcer(Path(self.directory))


class Announcer(GlobalCommitter):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        with (self._directory / "announced").open("a") as file:
            file.write(f"checkpoint {checkpoint}: {len(committables)}\n")
