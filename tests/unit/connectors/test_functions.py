"""What a source or sink function is given and what a checkpoint keeps of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage.files import StorageFiles
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.clock import ManualClock
from tidegate.connectors.functions import (
    FunctionSink,
    FunctionSource,
    ParallelSourceFunction,
    SinkFunction,
    SourceFunction,
)
from tidegate.connectors.functions.life_cycle import DetachedContext
from tidegate.connectors.functions.sink import FunctionWriter
from tidegate.connectors.functions.split import FunctionSplit, redistributed
from tidegate.connectors.spi import Finished, ReaderContext
from tidegate.elements import Batch, Idle, Watermark
from tidegate.errors import ConfigError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, SplitId, Subtask
from tidegate.keys import KeyGroupRange
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.serde import codec_for
from tidegate.twophase.spi import WriterContext

CHECKPOINT = CheckpointId(1)
CODEC = codec_for(None)


class CounterSource(ParallelSourceFunction):
    """The counter of the documents: one item of state, the next number."""

    def __init__(self) -> None:
        self.offset = 0

    def run(self, ctx: Any) -> None:
        for _ in range(3):
            with ctx.get_checkpoint_lock():
                ctx.collect(self.offset)
                self.offset += 1

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.offset]

    def restore_state(self, state: list[int]) -> None:
        for offset in state:
            self.offset = offset


class Flood(SourceFunction):
    def run(self, ctx: Any) -> None:
        number = 0
        while True:
            ctx.collect(number)
            number += 1


class Moods(SourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect_with_timestamp("a", 5)
        ctx.mark_as_temporarily_idle()
        ctx.emit_watermark(7)


class Buffering(SinkFunction):
    """The buffering sink of the documents: writes whenever it holds as many as the threshold."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.held: list[Any] = []
        self.flushed: list[list[Any]] = []

    def invoke(self, value: Any, context: Any) -> None:
        self.held.append(value)
        if len(self.held) == self.threshold:
            self.flushed.append(self.held)
            self.held = []

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return list(self.held)

    def restore_state(self, state: list[Any]) -> None:
        self.held.extend(state)


class Run:
    """A reader and the moments at which it asks to be polled."""

    def __init__(self, function: SourceFunction, split: FunctionSplit) -> None:
        self.woken = threading.Semaphore(0)
        self.program = program("in")
        context = ReaderContext(
            OperatorUid("in"),
            Subtask("in", 0),
            1,
            ManualClock(1_000),
            wake=lambda: self.woken.release(),
            program=self.program,
        )
        self.reader = FunctionSource(function).open_reader(context)
        self.reader.add_splits([split])
        self.reader.no_more_splits()

    def elements(self) -> list[Any]:
        found: list[Any] = []
        while not isinstance(element := self.reader.poll(100), Finished):
            if isinstance(element, Batch | Watermark | Idle):
                found.append(element)
            else:
                assert self.woken.acquire(timeout=10)
        return found

    def values(self) -> list[Any]:
        return [value for batch in self.elements() for value in batch.values]


def program(uid: str, *lists: OperatorList) -> OperatorContext:
    """What a program gives to a function: its state from `lists`, nothing else."""
    env = ChainEnvironment(
        subtask=Subtask(uid, 0),
        parallelism=1,
        max_parallelism=128,
        key_groups=KeyGroupRange(0, 128),
        pipeline=PipelineId("p"),
        lineage=LineageId("l"),
        branch=Branch(0),
        attempt="a",
        clock=ManualClock(1_000),
        backend=HeapBackend(),
        state=BackendContext(Path(), StorageFiles(MemoryStorage().blobs, "shared"), {}),
        cache_entries=1,
        checkpoint=CHECKPOINT if lists else None,
    )
    return OperatorContext(OperatorUid(uid), uid, env, None, RestoredOperator(lists=lists))


def split(*items: Any, number: int = 0, **fields: Any) -> FunctionSplit:
    encoded = tuple(CODEC.encode(item) for item in items)
    return FunctionSplit(id=SplitId(str(number)), items=encoded, **fields)


def test_a_list_of_one_item_is_where_the_counter_goes_on() -> None:
    assert Run(CounterSource(), split(7)).values() == [7, 8, 9]


def test_fewer_instances_get_the_items_of_several() -> None:
    (both,) = redistributed([split(7, number=0), split(12, number=1)], 1)

    assert Run(CounterSource(), both).values() == [12, 13, 14]


def test_an_instance_without_items_starts_from_the_beginning() -> None:
    one, two = redistributed([split(7)], 2)

    assert sorted(Run(CounterSource(), one).values() + Run(CounterSource(), two).values()) == [
        0,
        1,
        2,
        7,
        8,
        9,
    ]


def test_a_run_that_has_returned_is_not_run_again() -> None:
    run = Run(CounterSource(), split())
    assert run.values() == [0, 1, 2]
    (kept,) = run.reader.snapshot(CHECKPOINT)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=FunctionSplit)

    assert Run(CounterSource(), again).values() == []


def test_what_was_emitted_and_not_taken_is_part_of_the_checkpoint() -> None:
    run = Run(Flood(), split())
    assert run.woken.acquire(timeout=10)
    (kept,) = run.reader.snapshot(CHECKPOINT)
    run.reader.close()

    batch = Run(Flood(), kept).reader.poll(len(kept.emitted))

    assert isinstance(batch, Batch)
    assert batch.values == list(range(len(kept.emitted)))


def test_idleness_ends_with_the_next_emission() -> None:
    record, *marks = Run(Moods(), split()).elements()

    assert (record.values, record.timestamps) == (["a"], [5])
    assert marks == [Idle(True), Idle(False), Watermark(7)]


def writer(
    function: SinkFunction, *restored: bytes, context: OperatorContext | None = None
) -> FunctionWriter:
    return FunctionSink(function).open_writer(
        WriterContext(
            PipelineId("p"),
            OperatorUid("out"),
            Subtask("out", 0),
            1,
            LineageId("l"),
            Branch(0),
            "a",
            restored,
            ManualClock(1_000),
            context,
        )
    )


def flushed(out: FunctionWriter) -> list[list[Any]]:
    function = out._function
    assert isinstance(function, Buffering)
    return function.flushed


def test_a_buffering_sink_continues_with_what_it_held() -> None:
    first = program("out")
    before = writer(Buffering(2), context=first)
    before.write(Batch(["a", "b", "c"]))
    assert before.snapshot(CHECKPOINT) is None

    after = writer(Buffering(2), context=program("out", *first.functions.snapshot()))
    after.write(Batch(["d"]))

    assert flushed(before) == [["a", "b"]]
    assert flushed(after) == [["c", "d"]]


def test_a_list_that_a_writer_held_before_it_was_operator_state_is_restored() -> None:
    state = msgspec.msgpack.encode([CODEC.encode("c")])
    out = writer(Buffering(2), state, context=program("out"))
    out.write(Batch(["d"]))

    assert flushed(out) == [["c", "d"]]


def test_a_function_with_state_is_refused_where_nothing_keeps_it() -> None:
    with pytest.raises(ConfigError, match="the function of 'out' runs outside a program"):
        writer(Buffering(2))


class Slow(CounterSource):
    """Changes its position while a checkpoint may be taken."""

    def run(self, ctx: Any) -> None:
        with ctx.get_checkpoint_lock():
            ctx.collect(self.offset)
            self.inside.set()
            assert self.go.wait(10)
            self.offset += 1

    def open(self, runtime_context: Any) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        INSTANCES.append(self)


INSTANCES: list[Slow] = []


def test_a_snapshot_waits_for_the_checkpoint_lock_and_holds_position_and_emissions_of_one_moment() -> None:
    run = Run(Slow(), split())
    function = INSTANCES.pop()
    assert function.inside.wait(10)
    taken: list[FunctionSplit] = []
    saving = threading.Thread(target=lambda: taken.extend(run.reader.snapshot(CHECKPOINT)))
    saving.start()
    assert not taken
    function.go.set()
    saving.join(10)

    (held,) = run.program.functions.snapshot()
    assert [CODEC.decode(item) for item in held.items] == [1]
    assert len(taken[0].emitted) == 1


@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 3), (3, 2)])
def test_dealing_keeps_every_item_once(before: int, after: int) -> None:
    splits = redistributed([split(number, number + 10, number=number) for number in range(before)], after)

    items = [item for each in splits for item in each.items]
    assert len(splits) == after
    assert sorted(CODEC.decode(item) for item in items) == sorted([*range(before), *range(10, 10 + before)])


@pytest.mark.parametrize(
    "ask",
    [
        lambda place: place.get_job_parameter("key"),
        lambda place: place.add_accumulator("name", None),
        lambda place: place.get_metrics_group(),
        lambda place: place.get_distributed_cache(),
        lambda place: place.get_state(None),
    ],
    ids=["parameter", "accumulator", "metrics", "files", "state"],
)
def test_a_function_outside_a_program_is_told_that_it_is(ask: Any) -> None:
    with pytest.raises(ConfigError, match="the function of 'in' runs outside a program"):
        ask(DetachedContext("in", 0, 1))
