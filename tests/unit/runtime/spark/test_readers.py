"""Between epochs the driver stands in for the readers."""

from __future__ import annotations

import msgspec
import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import RangeSplit
from tidegate.connectors.collection import CollectionSource, CollectSink
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.graph.job_graph import build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Input, Transformation
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.spark.messages import TaskResult
from tidegate.runtime.spark.readers import Readers

IN = OperatorUid("in")


@pytest.fixture
def readers() -> Readers:
    """Two readers of ten numbers."""
    source = Transformation(SOURCE, "in", CollectionSource(range(10)), uid="in")
    sink = Transformation(SINK, "out", CollectSink("/tmp"), (Input(source),))
    return Readers(
        build_job_graph(build_stream_graph([sink], parallelism=2)),
        None,
        SYSTEM_CLOCK,
        lambda uid, reason: None,
    )


def at(index: int, *splits: RangeSplit) -> TaskResult:
    """A reader that has read to these positions."""
    encoded = tuple(map(msgspec.msgpack.encode, splits))
    return TaskResult(Subtask("in", index), 1, (OperatorReport(IN, index, splits=encoded),))


def ranges(readers: Readers) -> list[list[tuple[int, int | None]]]:
    decoded = [
        [msgspec.msgpack.decode(split, type=RangeSplit) for split in order.splits]
        for order in readers.orders(4)
    ]
    return [[(split.next, split.stop) for split in splits] for splits in decoded]


def test_readers_get_their_splits_once_and_the_promise_that_nothing_follows(readers: Readers) -> None:
    assert ranges(readers) == [[(0, 5)], [(5, 10)]]
    assert all(order.complete and order.limit == 4 for order in readers.orders(4))
    assert ranges(readers) == [[(0, 5)], [(5, 10)]]


def test_an_epoch_that_does_not_count_leaves_the_positions_where_they_are(readers: Readers) -> None:
    before = ranges(readers)
    readers.snapshot(CheckpointId(1))

    assert ranges(readers) == before


def test_a_decided_epoch_moves_the_positions_of_those_who_reported(readers: Readers) -> None:
    first = ranges(readers)
    (split,) = [msgspec.msgpack.decode(s, type=RangeSplit) for s in readers.orders(4)[0].splits]

    readers.advance([at(0, split.after(split.head(3))), TaskResult(Subtask("sum", 0), 2)])

    assert ranges(readers) == [[(3, 5)], first[1]]


def test_all_is_drained_when_every_reader_is(readers: Readers) -> None:
    assert not readers.drained
    readers.orders(4)
    readers.advance([at(0)])
    assert not readers.drained
    readers.advance([at(1)])
    assert readers.drained
