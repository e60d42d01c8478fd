"""Subtasks of the simulation: two sources, each with a channel to each of two sinks, where barriers meet.

At a sink barriers are aligned; on request it overtakes what is in front of them, on all channels or on the first one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from tests.simulation.outside import Outside, Record, Storage, require
from tidegate.backends.spi import InlineChunk, KeyedHandle
from tidegate.elements import Barrier
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.keys import ranges
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.task.alignment import (
    Action,
    Alignment,
    Announced,
    BarrierArrived,
    BarrierSeen,
    Block,
    Overtake,
    Recorded,
    Snapshot,
    Unblock,
)
from tidegate.twophase.spi import Committable

__all__ = ["COUNT", "GROUPS", "SINKS", "SOURCE", "Report", "SinkTask", "SourceTask"]

SOURCE, COUNT = OperatorUid("source"), OperatorUid("count")
SINKS = GROUPS = 2

Report = tuple[CheckpointId, OperatorReport]


@dataclass
class SourceTask:
    """Reads records by position and deals them to the sinks."""

    index: int
    position: int
    triggered: CheckpointId = CheckpointId(0)

    def emit(self) -> tuple[int, Record]:
        """The next record and the sink it goes to."""
        record = (self.index, self.position)
        self.position += 1
        return record[1] % SINKS, record

    def trigger(self, barrier: Barrier) -> OperatorReport | None:
        """Take part in a checkpoint whose barrier is sent now; None if a newer one overtook it."""
        if barrier.checkpoint <= self.triggered:
            return None
        self.triggered = barrier.checkpoint
        return OperatorReport(
            SOURCE, self.index, splits=(msgspec.msgpack.encode((self.index, self.position)),)
        )


@dataclass
class Cut:
    """A checkpoint of a sink that has overtaken records: its report without them, and they as far as they are known."""

    report: OperatorReport
    unseen: set[object]
    records: list[Record] = field(default_factory=list)


@dataclass
class SinkTask:
    """Remembers every record it has seen, in files, and writes it outside, in transactions."""

    index: int
    attempt: str
    storage: Storage
    outside: Outside
    seen: frozenset[Record]
    restored: tuple[CheckpointId | None, KeyedHandle | None]
    overtakable: tuple[int, ...] = (0, 1)
    replay: deque[Record] = field(default_factory=deque)
    channels: list[deque[Record | Barrier]] = field(default_factory=lambda: [deque() for _ in range(2)])
    buffer: list[Record] = field(default_factory=list)
    unconfirmed: list[Committable] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alignment = Alignment(range(len(self.channels)), overtakable=self.overtakable)
        self.cut: Cut | None = None
        self.announced: Barrier | None = None
        self.blocked: set[object] = set()
        self.taken = {self.restored[0]: self.restored[1]}
        self.subtask = Subtask("count", self.index)

    @property
    def ready(self) -> list[int]:
        """Channels something can be taken from."""
        if self.replay:
            return [0]
        return [n for n, channel in enumerate(self.channels) if channel and n not in self.blocked]

    def take(self, channel: int, *, compact: bool) -> list[Report]:
        """Take one element; a report if it was the last barrier of a checkpoint."""
        if self.replay:
            self._see(self.replay.popleft())
            late, self.announced = self.announced, None
            return self.announce(late, compact=compact) if late is not None else []
        element = self.channels[channel].popleft()
        if not isinstance(element, Barrier):
            self._see(element)
            return []
        return self._act(self.alignment.on(BarrierArrived(channel, element.checkpoint)), element, compact)

    def announce(self, barrier: Barrier, *, compact: bool) -> list[Report]:
        """A checkpoint shall wait for nothing but what an earlier one has overtaken."""
        if self.replay:
            self.announced = barrier
            return []
        return self._act(self.alignment.on(Announced(barrier.checkpoint)), barrier, compact)

    def deliver(self, channel: int, element: Record | Barrier) -> list[Report]:
        """A source sends."""
        self.channels[channel].append(element)
        return self._record(channel, element)

    def _see(self, record: Record) -> None:
        later = [seen for seen in self.seen if seen[0] == record[0] and seen[1] >= record[1]]
        require(not later, f"{record} comes after {later}")
        self.seen |= {record}
        self.buffer.append(record)

    def _act(self, actions: list[Action], barrier: Barrier, compact: bool) -> list[Report]:
        reports: list[Report] = []
        for action in actions:
            match action:
                case Block():
                    self.blocked.add(action.channel)
                case Unblock():
                    self.blocked.clear()
                case Snapshot():
                    reports.append((action.checkpoint, self._snapshot(barrier, compact=compact)))
                case Overtake():
                    self.cut = Cut(self._snapshot(barrier, compact=compact), set(action.channels))
                    for channel, queue in enumerate(self.channels):
                        for element in list(queue):
                            reports += self._record(channel, element)
                case Recorded():
                    reports.append((action.checkpoint, self._recorded()))
        return reports

    def _record(self, channel: int, element: Record | Barrier) -> list[Report]:
        if self.cut is None or channel not in self.cut.unseen:
            return []
        if not isinstance(element, Barrier):
            self.cut.records.append(element)
            return []
        self.cut.unseen.discard(channel)
        return self._act(self.alignment.on(BarrierSeen(channel, element.checkpoint)), element, compact=False)

    def _recorded(self) -> OperatorReport:
        assert self.cut is not None
        cut, self.cut = self.cut, None
        chunk = InlineChunk(msgspec.msgpack.encode(cut.records))
        return msgspec.structs.replace(cut.report, in_flight=chunk)

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
