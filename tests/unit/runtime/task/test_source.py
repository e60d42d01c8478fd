"""A source is idle only once it knows that there is nothing for it: what is on its way to it must not come too late."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage
from tidegate.backends.storage.files import StorageFiles
from tidegate.clock import ManualClock
from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Poll, ReaderContext, Source
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Element, Idle
from tidegate.ids import Branch, LineageId, OperatorUid, PipelineId, SplitId, Subtask
from tidegate.keys import range_of
from tidegate.runtime.job import Program
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark.outbox import Outbox
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.runtime.task.messages import AssignSplits, SplitsWanted
from tidegate.runtime.task.source import SourceTask

SPLIT = msgspec.msgpack.encode(RangeSplit(SplitId("a"), 0, 3))


class SaysThatItIsIdle(RangeReader):
    """As readers of Kafka do: whenever it has no splits, and no more when it has."""

    def __init__(self) -> None:
        super().__init__(list)
        self.idle = self.has_splits = False

    def add_splits(self, splits: Sequence[RangeSplit]) -> None:
        super().add_splits(splits)
        self.has_splits = True

    def poll(self, limit: int) -> Poll:
        if self.idle == self.has_splits:
            self.idle = not self.has_splits
            return Idle(self.idle)
        return super().poll(limit) if self.has_splits else NotYet()


class Numbers(GeneratorSource[int]):
    def open_reader(self, context: ReaderContext) -> Any:
        return SaysThatItIsIdle()


class Reading:
    """A subtask that reads, and what it has sent so far."""

    def __init__(self, directory: Path, background: ThreadPoolExecutor) -> None:
        env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 1})
        source: Source[Any] = Numbers(lambda number: number, count=3)
        env.from_source(source).uid("numbers").rebalance().print()
        program = Program("reads", PipelineId("reads"), tuple(env._steps), JobOptions(), parallelism=1)
        vertex = program.graph(None).vertices["numbers"]
        (self.subtask,), (edge,) = vertex.subtasks, vertex.outputs
        self.wire, self.outbox = EdgeCodec(edge), Outbox()
        self.said: list[Any] = []
        self.clock = ManualClock(7_200_000)
        files = StorageFiles(MemoryStorage().blobs, "run")
        environment = ChainEnvironment(
            subtask=self.subtask,
            parallelism=1,
            max_parallelism=128,
            key_groups=range_of(0, 1, 128),
            pipeline=PipelineId("reads"),
            lineage=LineageId("1"),
            branch=Branch(0),
            attempt="a",
            clock=ManualClock(),  # the user's: it stands still
            outside=self.clock,
            backend=HeapBackend(),
            state=BackendContext(directory, files, {}),
            cache_entries=10,
        )
        gates = self.outbox.gates(vertex, 0)
        self.runner = SourceTask(vertex, environment, gates, self.said.append, background)
        self.runner.open()

    def assign(self, *splits: bytes) -> None:
        self.runner.post(AssignSplits(splits))

    def sent(self) -> list[Element]:
        """Everything but records, which wait for more of them, once there is nothing to do."""
        self.runner.take_mail()
        while self.runner.step():
            pass
        (share,) = self.outbox.dealt((Subtask("print", 0),), 0)
        frames = [msgspec.msgpack.decode(frame, type=Frame) for frames in share.values() for frame in frames]
        return [self.wire.element(frame) for frame in frames]


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    with ThreadPoolExecutor(1) as background:
        made = Reading(tmp_path, background)
        with contextlib.closing(made.runner):
            yield made


class AsksForPatience(RangeReader):
    """Has something each second."""

    def __init__(self) -> None:
        super().__init__(list)
        self.asked = 0

    def poll(self, limit: int) -> Poll:
        self.asked += 1
        return NotYet(1_000)


def test_a_reader_is_asked_again_in_time_though_the_wall_clock_was_set_back(reading: Reading) -> None:
    reader = reading.runner._reader = AsksForPatience()
    reading.runner.step()
    reading.clock.set(reading.clock.now_ms() - 3_600_000)
    assert reading.runner.wait_s() == pytest.approx(1)

    reading.clock.advance(999)
    reading.runner.step()
    assert reader.asked == 1
    reading.clock.advance(1)
    reading.runner.step()
    assert reader.asked == 2


def test_nobody_is_idle_before_it_has_heard_what_there_is(reading: Reading) -> None:
    assert reading.sent() == []
    assert reading.said == [SplitsWanted(OperatorUid("numbers"), 0, 0)]

    reading.assign(SPLIT)
    assert (reading.sent(), reading.runner.records) == ([], 3)


def test_who_has_heard_that_there_is_nothing_is_idle_until_there_is(reading: Reading) -> None:
    reading.sent()
    reading.assign()
    assert reading.sent() == [Idle(True)]

    reading.assign(SPLIT)
    assert (reading.sent(), reading.runner.records) == ([Idle(True), Idle(False)], 3)
