"""What was on its way at a checkpoint comes back once, to whom it belongs, at any parallelism."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext, Chunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import ManualClock
from tidegate.elements import Barrier, Batch, EndOfInput, Idle, Watermark
from tidegate.errors import RecordError, StateFormatError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.keys import key_bytes, key_group, ranges
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.graph.transformations import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Partition,
    Rebalance,
    Rescale,
    Shuffle,
)
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.in_flight import Recording, overtakable, resumed
from tidegate.types import TypeInformation, Types

SEVEN = CheckpointId(7)
UID = OperatorUid("to")
BEHIND = Hash(lambda value: value % 5)
FILES = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)


def edge(partition: Partition, parallelism: int, info: TypeInformation | None = None) -> JobEdge:
    return JobEdge("from", OperatorUid("from"), UID, partition, info, 2, parallelism, 128)


def vertex(inbound: JobEdge, parallelism: int) -> JobVertex:
    step = StreamNode(UID, "to", "map", None, parallelism, 128, None)
    return JobVertex(UID, "to", {UID: step}, {UID: ()}, parallelism, 128, (inbound,), ())


def environment(index: int, parallelism: int, in_flight: tuple[Chunk, ...]) -> ChainEnvironment:
    return ChainEnvironment(
        subtask=Subtask(UID, index),
        parallelism=parallelism,
        max_parallelism=128,
        key_groups=ranges(parallelism, 128)[index],
        pipeline=PipelineId("p"),
        lineage=LineageId("l"),
        branch=Branch(0),
        attempt="a",
        clock=ManualClock(),
        backend=HeapBackend(),
        state=BackendContext(Path("/nowhere"), FILES, {}),
        cache_entries=10,
        restored={UID: RestoredOperator(in_flight=in_flight)},
    )


def recorded(inbound: JobEdge, index: int, came: dict[int, list[Any]]) -> Chunk:
    """What a subtask keeps of what came from each source."""
    channels = {source: ChannelId(inbound.name, source, index) for source in came}
    marks = dict.fromkeys(channels.values(), (0, False))
    recording = Recording(SEVEN, (inbound,), index, marks, set(channels.values()))
    for source, elements in came.items():
        for element in (*elements, Barrier(SEVEN), Batch([-1])):
            recording.add(channels[source], element)
    return FILES.store(recording.encoded())


def values(inbound: JobEdge, parallelism: int, chunks: tuple[Chunk, ...]) -> list[list[Any]]:
    """What each subtask works off."""
    return [
        [
            value
            for _, _, element in resumed(
                vertex(inbound, parallelism), environment(index, parallelism, chunks)
            )
            if isinstance(element, Batch)
            for value in element.values
        ]
        for index in range(parallelism)
    ]


LANES = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=2, max_size=2)


@given(
    partition=st.sampled_from([BEHIND, Rebalance(), Shuffle(), Global()]),
    kept=st.lists(LANES, min_size=1, max_size=3),
    parallelism=st.integers(1, 4),
)
def test_every_record_comes_back_once_and_in_the_order_of_its_channel(
    partition: Partition, kept: list[list[list[int]]], parallelism: int
) -> None:
    before, after = edge(partition, len(kept)), edge(partition, parallelism)
    numbered = iter(range(1_000))
    named = [[[value + 10 * next(numbered) for value in lane] for lane in lanes] for lanes in kept]
    chunks = tuple(
        recorded(
            before, index, {source: [Batch([value]) for value in lane] for source, lane in enumerate(lanes)}
        )
        for index, lanes in enumerate(named)
    )

    taken = values(after, parallelism, chunks)

    lanes = [lane for each in named for lane in each]
    assert Counter(value for each in taken for value in each) == Counter(v for lane in lanes for v in lane)
    for lane in lanes:
        for each in taken:
            assert [value for value in each if value in lane] == [value for value in lane if value in each]
    if partition is BEHIND:
        for index, each in enumerate(taken):
            owners = {key_group(key_bytes(value % 5), 128) * parallelism // 128 for value in each}
            assert owners <= {index}
    if isinstance(partition, Global):
        assert not any(taken[1:])


def test_records_without_a_key_come_back_to_their_own_subtask_if_there_are_as_many() -> None:
    inbound = edge(Rebalance(), 2)
    chunks = tuple(recorded(inbound, index, {0: [Batch([index])], 1: []}) for index in range(2))

    assert values(inbound, 2, chunks) == [[0], [1]]


def test_times_and_origins_of_records_come_back_and_large_batches_in_pieces() -> None:
    inbound = edge(BEHIND, 1)
    batch = Batch(list(range(600)), list(range(600)), origins=[None] * 600)

    (resumed_batches,) = [
        list(resumed(vertex(inbound, 1), environment(0, 1, (recorded(inbound, 0, {0: [batch]}),))))
    ]

    batches = [element for _, _, element in resumed_batches if isinstance(element, Batch)]
    assert [len(each) for each in batches] == [256, 256, 88]
    assert [time for each in batches for time in each.timestamps or ()] == list(range(600))
    assert batches[0].keys == [value % 5 for value in range(256)]
    assert batches[0].origins == [None] * 256


def test_time_is_in_the_end_where_the_slowest_channel_that_is_not_idle_was() -> None:
    inbound = edge(BEHIND, 1)
    came = {
        0: [Watermark(10), Batch([1]), Watermark(30)],
        1: [Watermark(20), Idle(True), Batch([2]), Idle(False), EndOfInput()],
    }

    found = list(resumed(vertex(inbound, 1), environment(0, 1, (recorded(inbound, 0, came),))))

    steps = [e.timestamp if isinstance(e, Watermark) else e.values for _, _, e in found]
    assert steps == [0, [1], 20, 30, [2]]


def test_where_the_receiver_is_fixed_nothing_is_overtaken() -> None:
    free: list[Partition] = [BEHIND, Rebalance(), Shuffle(), Global()]
    fixed: list[Partition] = [
        Forward(),
        Rescale(),
        Broadcast(),
        Custom(lambda key, count: 0, lambda value: value),
    ]

    assert [overtakable(edge(partition, 2)) for partition in free] == [True] * 4
    assert [overtakable(edge(partition, 2)) for partition in fixed] == [False] * 4


def test_records_of_another_type_are_refused() -> None:
    chunk = recorded(edge(BEHIND, 1, Types.LONG()), 0, {0: [Batch([1])]})

    with pytest.raises(
        StateFormatError,
        match=r"records on their way to input 0 of operator 'to'; got records of type .*long.*; expected type .*string",
    ):
        values(edge(BEHIND, 1, Types.STRING()), 1, (chunk,))


def test_records_are_not_dealt_by_what_gives_everybody_a_copy() -> None:
    chunk = recorded(edge(Rebalance(), 1), 0, {0: [Batch([1])]})

    with pytest.raises(
        StateFormatError, match="expected an exchange that deals records by keys or in turn; start"
    ):
        values(edge(Broadcast(), 1), 1, (chunk,))


def test_a_value_that_is_not_of_its_type_is_refused_when_it_is_overtaken() -> None:
    with pytest.raises(RecordError, match="record does not have its declared type"):
        recorded(edge(BEHIND, 1, Types.LONG()), 0, {0: [Batch(["one"])]})
