"""Writers, committers and readers as the runtime would open them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.connectors.spi import ReaderContext
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.spi import Committable, CommitterContext, WriterContext

UID = OperatorUid("sink")


@dataclass
class Deal:
    """An enumerator context that notes what was assigned."""

    parallelism: int = 2
    owner: str = ""
    assigned: dict[int, list[Any]] = field(default_factory=dict)
    complete: list[int] = field(default_factory=list)

    def assign(self, reader: int, splits: Sequence[Any]) -> None:
        self.assigned.setdefault(reader, []).extend(splits)

    def no_more_splits(self, reader: int) -> None:
        self.complete.append(reader)

    def send_event(self, reader: int, event: bytes) -> None:
        raise AssertionError("no source here sends events")


@pytest.fixture
def deal() -> Deal:
    return Deal()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def reader_context(clock: ManualClock) -> ReaderContext:
    return ReaderContext(OperatorUid("source"), Subtask("source", 0), 1, clock)


@pytest.fixture
def committer_context(clock: ManualClock) -> CommitterContext:
    return CommitterContext(PipelineId("orders"), UID, LineageId("1f"), clock)


@pytest.fixture
def writer_context(clock: ManualClock) -> Callable[..., WriterContext]:
    def build(
        subtask: int = 0, attempt: str = "1", parallelism: int = 1, pipeline: str = "orders"
    ) -> WriterContext:
        who = Subtask("sink", subtask)
        return WriterContext(
            PipelineId(pipeline), UID, who, parallelism, LineageId("1f"), Branch(0), attempt, (), clock
        )

    return build


@pytest.fixture
def committable() -> Callable[..., Committable]:
    """What the runtime makes of what `prepare` returned."""

    def build(prepared: tuple[bytes, str, int] | None, checkpoint: int = 1) -> Committable:
        assert prepared is not None
        return Committable(UID, 0, CheckpointId(checkpoint), *prepared)

    return build
