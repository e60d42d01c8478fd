"""What describes a kind of step, and that sinks are operators like others."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import ManualClock
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.spi import Sink
from tidegate.elements import Batch
from tidegate.errors import RecordError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import (
    FEEDBACK,
    ITERATION,
    SIDE_OUTPUT,
    UNION,
    Input,
    Transformation,
)
from tidegate.runtime.operators.async_wait import ASYNC_WAIT
from tidegate.runtime.operators.broadcast import BROADCAST_PROCESS
from tidegate.runtime.operators.chain import OperatorChain
from tidegate.runtime.operators.environment import DryRun, environment_of
from tidegate.runtime.operators.expressions import EXPRESSIONS
from tidegate.runtime.operators.functions import CO_FLAT_MAP, CO_MAP, FILTER, FLAT_MAP, MAP
from tidegate.runtime.operators.keyed import CO_PROCESS, PROCESS
from tidegate.runtime.operators.operator import StepKind
from tidegate.runtime.operators.reduce import REDUCE
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import SOURCE, STAMP
from tidegate.runtime.operators.window.operator import WINDOW
from tidegate.runtime.options import JobOptions
from tidegate.twophase.spi import SinkWriter, WriterContext

FUNCTIONS = (MAP, FILTER, FLAT_MAP, PROCESS, REDUCE, STAMP, ASYNC_WAIT, WINDOW, EXPRESSIONS)
OF_TWO = (CO_MAP, CO_FLAT_MAP, CO_PROCESS, BROADCAST_PROCESS)
OTHERS = (SOURCE, SIDE_OUTPUT, UNION, ITERATION, FEEDBACK, SINK)
ALL = (*FUNCTIONS, *OF_TWO, *OTHERS)


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_a_kind_arrives_at_a_worker_as_it_was_sent(kind: StepKind) -> None:
    arrived = pickle.loads(pickle.dumps(kind))

    assert arrived == kind
    assert arrived.role is kind.role


def test_names_are_unique_since_checkpoints_know_steps_by_them() -> None:
    names = [kind.name for kind in ALL]

    assert sorted(names) == [
        "async_wait", "broadcast_process", "co_flat_map", "co_map", "co_process", "expressions", "feedback", "filter", "flat_map",
        "iterate", "map", "process", "reduce", "side", "sink", "source", "stamp", "union", "window",
    ]  # fmt: skip


def test_inputs_say_how_many_there_are_and_whether_they_have_keys() -> None:
    assert [len(kind.inputs) for kind in OF_TWO] == [2, 2, 2, 2]
    assert SOURCE.inputs == ()
    assert {kind.name for kind in ALL if any(each.keyed == "required" for each in kind.inputs)} == {
        "reduce",
        "window",
    }
    assert [each.keyed for each in BROADCAST_PROCESS.inputs] == ["optional", "none"]


def test_aggregations_take_and_give_insertions_only() -> None:
    assert {kind.name for kind in ALL if kind.gives == "insert-only"} == {"reduce", "window"}
    assert {kind.name for kind in ALL if any(each.takes == "insert-only" for each in kind.inputs)} == {
        "reduce",
        "window",
    }


class Kept(Sink):
    """Keeps what is written to it."""

    delivery = "none"

    def __init__(self, writer: SinkWriter) -> None:
        self._writer = writer

    def open_writer(self, context: WriterContext) -> SinkWriter:
        return self._writer


class Plain(SinkWriter):
    def __init__(self) -> None:
        self.written: list[Any] = []

    def write(self, batch: Batch) -> None:
        if None in batch.values:
            raise RecordError("None cannot be written")
        self.written += batch.values

    def prepare(self, checkpoint: CheckpointId) -> None: ...


class Encoding(Plain):
    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def write_encoded(self, batch: Batch) -> None:
        self.written += batch.values


class Nowhere:
    """Takes what nothing here sends."""

    def emit(self, edge: JobEdge, batch: Batch) -> None: ...

    def watermark(self, edge: JobEdge, timestamp: int) -> None: ...

    def idle(self, edge: JobEdge, idle: bool) -> None: ...


@pytest.fixture(params=[Plain, Encoding], ids=["records", "encoded"])
def writer(request: pytest.FixtureRequest) -> Plain:
    made: Plain = request.param()
    return made


@pytest.fixture
def chain(writer: Plain, tmp_path: Path) -> Iterator[OperatorChain]:
    """A source, a map that adds one, and a sink behind it."""
    source = Transformation(SOURCE, "in", CollectionSource([1]), uid="in")
    plus_one = Transformation(MAP, "plus", lambda value: value and value + 1, (Input(source),), uid="plus")
    sink = Transformation(SINK, "out", Kept(writer), (Input(plus_one),), uid="out")
    graph = build_job_graph(build_stream_graph([sink], parallelism=1))
    (vertex,) = graph.vertices.values()
    opened = OperatorChain(vertex, _environment(vertex, tmp_path), Nowhere())
    opened.open()
    yield opened
    opened.close()


def _environment(vertex: JobVertex, directory: Path) -> Any:
    files = StorageFiles(MemoryStorage().blobs, "run")
    state = BackendContext(directory, files, {})
    return environment_of(
        vertex,
        vertex.subtasks[0],
        DryRun(JobOptions()),
        attempt="a",
        clock=ManualClock(),
        backend=HeapBackend(),
        state=state,
    )


def test_a_sink_takes_batches_behind_the_steps_before_it(chain: OperatorChain, writer: Plain) -> None:
    chain.data.process(Batch([1, 2]))

    assert [int(value) for value in writer.written] == [2, 3]


def test_records_addressed_to_a_sink_inside_a_chain_reach_it_alone(
    chain: OperatorChain, writer: Plain
) -> None:
    chain.data.process(Batch([1, 2]), at=OperatorUid("out"))

    assert [int(value) for value in writer.written] == [1, 2]


def test_a_record_that_a_sink_refuses_names_the_sink(chain: OperatorChain, writer: Plain) -> None:
    if isinstance(writer, Encoding):
        chain.data.process(Batch([None]))
        assert writer.written == [b"None"]
        return
    with pytest.raises(
        RecordError, match=r"operator 'out' \(uid 'out', subtask .*\) failed: None cannot be written"
    ):
        chain.data.process(Batch([None]))


def test_time_passes_a_sink_and_is_in_its_part_of_a_checkpoint(chain: OperatorChain) -> None:
    chain.time.advance_watermark(7)
    chain.time.settle()

    reports = chain.snapshots.take(CheckpointId(1), None)()

    times = {report.uid: report.time.passed for report in reports if report.time is not None}
    assert times == {"in": 7, "plus": 7, "out": 7}
    assert [report.uid for report in reports if report.time is None] == ["out"]
