"""Subtasks of the simulation: two sources, each with a channel to each of two sinks, where barriers are aligned."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from tests.simulation.outside import Outside, Record, Storage
from tidegate.backends.spi import KeyedHandle
from tidegate.elements import Barrier
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.keys import ranges
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.task.alignment import Alignment, BarrierArrived, Block, Snapshot, Unblock
from tidegate.twophase.spi import Committable

__all__ = ["COUNT", "GROUPS", "SINKS", "SOURCE", "SinkTask", "SourceTask"]

SOURCE, COUNT = OperatorUid("source"), OperatorUid("count")
SINKS = GROUPS = 2


@dataclass
class SourceTask:
    """Reads records by position and deals them to the sinks."""

    index: int
    position: int
    channels: list[deque[Record | Barrier]]
    triggered: CheckpointId = CheckpointId(0)

    def emit(self) -> None:
        self.channels[self.position % SINKS].append((self.index, self.position))
        self.position += 1

    def trigger(self, barrier: Barrier) -> OperatorReport | None:
        """Send a barrier; None if a newer checkpoint overtook it."""
        if barrier.checkpoint <= self.triggered:
            return None
        self.triggered = barrier.checkpoint
        for channel in self.channels:
            channel.append(barrier)
        return OperatorReport(
            SOURCE, self.index, splits=(msgspec.msgpack.encode((self.index, self.position)),)
        )


@dataclass
class SinkTask:
    """Remembers every record it has seen, in files, and writes it outside, in transactions."""

    index: int
    attempt: str
    storage: Storage
    outside: Outside
    seen: frozenset[Record]
    restored: tuple[CheckpointId | None, KeyedHandle | None]
    channels: list[deque[Record | Barrier]] = field(default_factory=lambda: [deque() for _ in range(2)])
    buffer: list[Record] = field(default_factory=list)
    unconfirmed: list[Committable] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alignment = Alignment(range(len(self.channels)))
        self.blocked: set[object] = set()
        self.taken = {self.restored[0]: self.restored[1]}
        self.subtask = Subtask("count", self.index)

    @property
    def ready(self) -> list[int]:
        """Channels something can be taken from."""
        return [n for n, channel in enumerate(self.channels) if channel and n not in self.blocked]

    def take(self, channel: int, *, compact: bool) -> tuple[CheckpointId, OperatorReport] | None:
        """Take one element; a report if it was the last barrier of a checkpoint."""
        element = self.channels[channel].popleft()
        if not isinstance(element, Barrier):
            self.seen |= {element}
            self.buffer.append(element)
            return None
        report = None
        for action in self.alignment.on(BarrierArrived(channel, element.checkpoint)):
            match action:
                case Block():
                    self.blocked.add(action.channel)
                case Unblock():
                    self.blocked.clear()
                case Snapshot():
                    report = action.checkpoint, self._snapshot(element, compact=compact)
        return report

    def _snapshot(self, barrier: Barrier, *, compact: bool) -> OperatorReport:
        if barrier.confirmed is not None:
            self.unconfirmed = [c for c in self.unconfirmed if c.checkpoint > barrier.confirmed]
        if self.buffer:
            payload, name = (
                msgspec.msgpack.encode(self.buffer),
                f"{self.attempt}/{self.subtask}/{barrier.checkpoint}",
            )
            work = Committable(COUNT, self.index, barrier.checkpoint, payload, name, len(self.buffer))
            self.outside.prepared.add(work)
            self.unconfirmed.append(work)
            self.buffer = []
        handle = self._handle(barrier, compact=compact)
        self.taken[barrier.checkpoint] = handle
        return OperatorReport(COUNT, self.index, keyed=handle, committables=tuple(self.unconfirmed))

    def _handle(self, barrier: Barrier, *, compact: bool) -> KeyedHandle:
        """The files of the confirmed checkpoint and one with everything since, or one with everything."""
        before = self.taken.get(barrier.confirmed)
        chunks = before.chunks if before is not None and not compact else ()
        known = self.storage.union(chunk.name for chunk in chunks)  # type: ignore[union-attr] # all are stored
        name = f"{self.attempt}/{self.subtask}/{barrier.checkpoint}"
        new = self.storage.chunk(name, self.seen - known)
        return KeyedHandle(ranges(SINKS, GROUPS)[self.index], None, (*chunks, new))
