"""What a source task reads of what it is given."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidegate.clock import ManualClock
from tidegate.connectors.base import RangeSplit
from tidegate.connectors.generator import GeneratorSource
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, OperatorUid, SplitId, Subtask
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.spark.messages import ReadOrder
from tidegate.runtime.spark.reading import Done, read_splits

SPLIT = RangeSplit(SplitId("0/1"), 10, 1_000)


def read(
    limit: int, *splits: RangeSplit, complete: bool = True, rate: float | None = None
) -> tuple[Done, list[Any]]:
    uid = OperatorUid("numbers")
    source = GeneratorSource(lambda number: number, count=1_000, rate_per_second=rate)
    vertex = JobVertex(
        "numbers",
        "numbers",
        {uid: StreamNode(uid, "numbers", "source", source, 1, 128, None)},
        {},
        1,
        128,
        (),
        (),
    )
    encoded = tuple(map(msgspec.msgpack.encode, splits))
    values: list[Any] = []

    def take(batch: Batch) -> None:
        values.extend(batch.values)

    order = ReadOrder(Subtask("numbers", 0), encoded, complete, limit)
    return read_splits(vertex, order, CheckpointId(1), take, ManualClock()), values


def positions(done: Done) -> list[int]:
    return [msgspec.msgpack.decode(split, type=RangeSplit).next for split in done.splits]


def test_reading_stops_at_the_limit_and_says_where_it_stands() -> None:
    done, values = read(5, SPLIT)

    assert values == [10, 11, 12, 13, 14]
    assert (done.records, positions(done), done.finished) == (5, [15], False)


def test_reading_to_the_end_of_the_last_split_finishes() -> None:
    done, values = read(2_000, SPLIT)

    assert values == list(range(10, 1_000))
    assert (done.records, done.splits, done.finished) == (990, (), True)


@pytest.mark.parametrize("splits", [(), (SPLIT,)], ids=["without-splits", "with-a-split"])
def test_who_may_get_more_splits_is_not_finished(splits: tuple[RangeSplit, ...]) -> None:
    done, _ = read(2_000, *splits, complete=False)

    assert (done.splits, done.finished, done.wake_ms) == ((), False, None)


def test_nothing_is_read_when_nothing_may_be() -> None:
    done, values = read(0, SPLIT)

    assert values == []
    assert (done.records, positions(done), done.finished) == (0, [10], False)


def test_a_paced_source_is_waited_for_half_a_second_and_no_longer() -> None:
    done, values = read(2_000, SPLIT, rate=100)

    assert 50 <= len(values) <= 52
    assert positions(done) == [10 + len(values)]
    assert done.wake_ms is not None
