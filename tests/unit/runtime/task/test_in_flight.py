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
from tidegate.keys import key_bytes, key_group, key_groups, ranges
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.graph.transformations import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    KeyedForward,
    Partition,
    Rebalance,
    Rescale,
    Shuffle,
)
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.functions import MAP
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.in_flight import Backlog, InFlightElement, Recording, overtakable
from tidegate.types import TypeInformation, Types

SEVEN = CheckpointId(7)
UID = OperatorUid("to")
BEHIND = Hash(lambda value: value % 5)
FILES = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)


def edge(partition: Partition, parallelism: int, info: TypeInformation | None = None) -> JobEdge:
    return JobEdge("from", OperatorUid("from"), UID, partition, info, 2, parallelism, 128)


def vertex(inbound: JobEdge, parallelism: int) -> JobVertex:
    step = StreamNode(UID, "to", MAP, None, parallelism, 128, None)
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
    recording = Recording(SEVEN, vertex(inbound, 1), index, marks, set(channels.values()))
    for source, elements in came.items():
        for element in (*elements, Barrier(SEVEN), Batch([-1])):
            recording.add(channels[source], element)
    return stored(recording)


def stored(recording: Recording) -> Chunk:
    (data,) = recording.encoded().values()
    return FILES.store(data)


def backlog(inbound: JobEdge, index: int, parallelism: int, chunks: tuple[Chunk, ...]) -> Backlog:
    """What a subtask has to work off."""
    return Backlog(vertex(inbound, parallelism), environment(index, parallelism, chunks))


def rest(found: Backlog, pieces: int = 1_000) -> list[InFlightElement]:
    taken = list[InFlightElement]()
    while (each := found.take(pieces)) is not None:
        taken.append(each)
    return taken


def recorded_again(inbound: JobEdge, index: int, found: Backlog, time: int) -> tuple[Chunk, ...]:
    """What a checkpoint keeps that overtakes what was found, with nothing new behind it."""
    channels = [ChannelId(inbound.name, source, index) for source in (0, 1)]
    recording = Recording(SEVEN, vertex(inbound, 1), index, dict.fromkeys(channels, (0, False)), channels)
    recording.add_backlog(found, time)
    return tuple(FILES.store(data) for data in recording.encoded().values())


def values(inbound: JobEdge, parallelism: int, chunks: tuple[Chunk, ...]) -> list[list[Any]]:
    """What each subtask works off."""
    return [
        [
            value
            for each in rest(backlog(inbound, index, parallelism, chunks))
            if isinstance(each.element, Batch)
            for value in each.element.values
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
        if any(lanes)
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

    found = rest(backlog(inbound, 0, 1, (recorded(inbound, 0, {0: [batch]}),)), pieces=256)

    batches = [each.element for each in found if isinstance(each.element, Batch)]
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

    found = rest(backlog(inbound, 0, 1, (recorded(inbound, 0, came),)))

    assert steps(found) == [0, [1], 20, 30, [2]]


def steps(found: list[InFlightElement]) -> list[Any]:
    return [
        each.element.timestamp if isinstance(each.element, Watermark) else each.element.values
        for each in found
    ]


def test_what_is_not_worked_off_is_overtaken_again_with_the_moves_of_time_between() -> None:
    inbound = edge(BEHIND, 1)
    came = {0: [Watermark(10), Batch([1]), Watermark(30)], 1: [Watermark(20), Batch([2, 3]), Watermark(40)]}
    found = backlog(inbound, 0, 1, (recorded(inbound, 0, came),))
    assert steps([each for _ in range(4) if (each := found.take(1)) is not None]) == [0, [1], 20, [2]]

    again = recorded_again(inbound, 0, found, time=20)

    assert steps(rest(found)) == [[3], 30]
    assert [each for each in steps(rest(backlog(inbound, 0, 1, again))) if isinstance(each, list)] == [[3]]


@given(
    partition=st.sampled_from([BEHIND, Rebalance(), Shuffle(), Global()]),
    kept=st.lists(LANES, min_size=1, max_size=3),
    parallelisms=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=4),
)
def test_overtaken_over_and_over_at_any_parallelism_every_record_is_worked_off_once(
    partition: Partition, kept: list[list[list[int]]], parallelisms: list[tuple[int, int]]
) -> None:
    numbered = iter(range(1_000))
    named = [[[value + 10 * next(numbered) for value in lane] for lane in lanes] for lanes in kept]
    before = edge(partition, len(kept))
    chunks = tuple(
        recorded(before, index, {source: [Batch(lane)] for source, lane in enumerate(lanes) if lane})
        for index, lanes in enumerate(named)
        if any(lanes)
    )
    worked_off = list[int]()
    for parallelism, taken in parallelisms:
        inbound, again = edge(partition, parallelism), list[Chunk]()
        for index in range(parallelism):
            found = backlog(inbound, index, parallelism, chunks)
            some = [each for _ in range(taken) if (each := found.take(1)) is not None]
            worked_off += [v for each in some if isinstance(each.element, Batch) for v in each.element.values]
            again += recorded_again(inbound, index, found, time=0)
        chunks = tuple(again)
    worked_off += [value for each in values(inbound, parallelism, chunks) for value in each]

    lanes = [lane for each in named for lane in each]
    assert Counter(worked_off) == Counter(value for lane in lanes for value in lane)
    keyed = partition is BEHIND
    for key in range(5 if keyed else 0):
        for lane in lanes:
            of_key = [value for value in lane if value % 5 == key]
            assert [value for value in worked_off if value in of_key] == of_key


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
        match=r"in-flight records of input 0 of operator 'to'; got records of type .*long.*; expected type .*string",
    ):
        values(edge(BEHIND, 1, Types.STRING()), 1, (chunk,))


def test_records_are_not_dealt_by_what_gives_everybody_a_copy() -> None:
    chunk = recorded(edge(Rebalance(), 1), 0, {0: [Batch([1])]})

    with pytest.raises(StateFormatError, match="expected an exchange by key or round-robin; start"):
        values(edge(Broadcast(), 1), 1, (chunk,))


def test_a_value_that_is_not_of_its_type_is_refused_when_it_is_overtaken() -> None:
    with pytest.raises(RecordError, match="record does not have its declared type"):
        recorded(edge(BEHIND, 1, Types.LONG()), 0, {0: [Batch(["one"])]})


@pytest.mark.parametrize("parallelism", [1, 3])
def test_what_was_in_front_of_a_step_that_is_keyed_in_a_chain_now_goes_to_the_owners_of_its_keys(
    parallelism: int,
) -> None:
    chunk = recorded(edge(BEHIND, 1), 0, {0: [Batch(list(range(10)))], 1: []})
    first, by = OperatorUid("first"), KeyedForward(BEHIND.selector)
    inbound = JobEdge("from", OperatorUid("from"), first, BEHIND, None, 1, parallelism, 128)
    nodes = {uid: StreamNode(uid, uid, MAP, None, parallelism, 128, None) for uid in (first, UID)}
    follows: dict[OperatorUid, tuple[OperatorUid, ...]] = {first: (UID,), UID: ()}
    chain = JobVertex(first, "both", nodes, follows, parallelism, 128, (inbound,), (), rekeyed={UID: by})

    found = [rest(Backlog(chain, environment(index, parallelism, (chunk,)))) for index in range(parallelism)]

    batches = [[each.element for each in of if isinstance(each.element, Batch)] for of in found]
    assert sorted(value for of in batches for batch in of for value in batch.values) == list(range(10))
    for index, of in enumerate(batches):
        for batch in of:
            assert batch.keys == [value % 5 for value in batch.values]
            assert all(group in ranges(parallelism, 128)[index] for group in key_groups(batch.keys, 128))


def test_what_stays_in_its_subtask_is_not_overtaken() -> None:
    assert not overtakable(edge(KeyedForward(BEHIND.selector), 2))
