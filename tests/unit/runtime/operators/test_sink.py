"""A sink in a subtask: prepared work that the system outside drops after some time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage
from tidegate.backends.storage.files import StorageFiles
from tidegate.clock import ManualClock
from tidegate.elements import Batch
from tidegate.errors import UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.keys import ranges
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.sink import SINK, SinkOperator
from tidegate.runtime.options import JobOptions
from tidegate.twophase.spi import SinkWriter, WriterContext

ONE, TWO, THREE = CheckpointId(1), CheckpointId(2), CheckpointId(3)
COMMIT_MS = 2_000


@dataclass
class Lasting(SinkWriter):
    """Prepares work without end, each piece of which is dropped after ten seconds."""

    lasts_ms: int = 10_000

    def write(self, batch: Batch) -> None:
        pass

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        return b"", f"transaction {checkpoint}", 1

    def expires_in_ms(self) -> int:
        return self.lasts_ms


class Eternal(SinkWriter):
    def write(self, batch: Batch) -> None:
        pass

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        return b"", "a file", 1


@dataclass
class Opens:
    writer: SinkWriter = field(default_factory=Lasting)

    def open_writer(self, context: WriterContext) -> SinkWriter:
        return self.writer


def operator(clock: ManualClock, writer: SinkWriter, commit_ms: int = COMMIT_MS) -> SinkOperator:
    node = StreamNode(OperatorUid("out"), "out", SINK, Opens(writer), 1, 128, None)
    files: Any = StorageFiles(MemoryStorage().blobs, "run")
    env = ChainEnvironment(
        subtask=Subtask("out", 0),
        parallelism=1,
        max_parallelism=128,
        key_groups=ranges(1, 128)[0],
        pipeline=PipelineId("p"),
        lineage=LineageId("l"),
        branch=Branch(0),
        attempt="a",
        clock=clock,
        backend=HeapBackend(),
        state=BackendContext(Path("/nowhere"), files, {}),
        cache_entries=10,
        commit_ms=commit_ms,
    )
    return SinkOperator(node, OperatorContext(node.uid, node.name, env, None, RestoredOperator()))


def test_work_of_declined_checkpoints_ages_until_it_fails_the_subtask() -> None:
    clock = ManualClock()
    sink = operator(clock, Lasting())

    sink.prepare(ONE, None)
    assert sink.spare_ms() == 8_000
    clock.advance(8_000)
    assert len(sink.prepare(TWO, None).committables) == 2, "what was declined is reported again"
    assert sink.spare_ms() == 0
    clock.advance(1)
    with pytest.raises(
        UnavailableError,
        match=r"^sink 'out': transaction 1 expires in 1999 ms; its commit may take 2000 ms .*; nothing is decided and "
        r"the records are written again; let checkpoints complete sooner, or give the sink's work a longer timeout$",
    ):
        sink.spare_ms()


def test_decided_work_does_not_age() -> None:
    clock = ManualClock()
    sink = operator(clock, Lasting())
    sink.prepare(ONE, None)
    clock.advance(60_000)

    sink.prepare(TWO, ONE)

    assert sink.spare_ms() == 8_000


def test_work_that_is_prepared_late_has_little_time_from_the_beginning() -> None:
    with_little = operator(ManualClock(), Lasting(COMMIT_MS - 1))
    with_little.prepare(ONE, None)

    with pytest.raises(UnavailableError, match="transaction 1 expires in 1999 ms"):
        with_little.spare_ms()


def test_work_that_never_expires_can_wait() -> None:
    clock = ManualClock()
    sink = operator(clock, Eternal())
    assert sink.spare_ms() == math.inf
    sink.prepare(ONE, None)
    clock.advance(10**9)
    assert sink.spare_ms() == math.inf


def test_two_declined_checkpoints_and_a_slow_decision_fit_into_the_time_that_a_sink_is_told() -> None:
    """The limit at which a sink is refused leaves room for what the check before an ack asks for."""
    options = JobOptions(interval_ms=8_000)
    assert (options.exposed_ms, options.commit_ms) == (92_000, 64_000)
    clock = ManualClock()
    sink = operator(clock, Lasting(options.exposed_ms - 8_000), options.commit_ms)

    sink.prepare(ONE, None)
    clock.advance(8_000)
    sink.prepare(TWO, None)
    clock.advance(8_000)
    sink.prepare(THREE, None)

    assert sink.spare_ms() == 4_000, "half an interval for the acks of others and the decision"
    assert JobOptions(interval_ms=100, pause_ms=5_000).exposed_ms == 80_000
