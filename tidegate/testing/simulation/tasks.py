"""Simulated subtasks: two sources and two sinks, where barriers meet.

Either each source has a channel to each sink, or the two halves know nothing of each other.

At a sink barriers are aligned; on request it overtakes what is in front of them, on all channels or on the first one.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field

import msgspec

from tidegate.backends.spi import InlineChunk, KeyedHandle, StoredChunk
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
    TakeSnapshot,
    Unblock,
)
from tidegate.testing.simulation.outside import Outside, Record, Storage, require
from tidegate.twophase.spi import Answer, CommitAnswer, Committable

__all__ = ["COUNT", "GROUPS", "SINKS", "SOURCE", "SOURCES", "Mode", "Report", "SinkTask", "SourceTask"]

SOURCE, COUNT = OperatorUid("source"), OperatorUid("count")
SOURCES = SINKS = GROUPS = 2

Report = tuple[CheckpointId, OperatorReport]


@dataclass(frozen=True, slots=True)
class Mode:
    """What a seed's pipeline is like: how its barriers are treated, and whether its halves are apart."""

    aligned_ms: int | None
    overtakable: tuple[int, ...]
    exactly_once: bool
    apart: bool

    def target(self, record: Record) -> int:
        """The sink that a record goes to."""
        return record[0] if self.apart else record[1] % SINKS

    def sources(self, sink: int) -> tuple[int, ...]:
        """Those that a sink has channels from."""
        return (sink,) if self.apart else tuple(range(SOURCES))


@dataclass(eq=False)
class SourceTask:
    """Reads records by position and deals them to the sinks."""

    index: int
    position: int
    triggered: CheckpointId = CheckpointId(0)

    def __post_init__(self) -> None:
        self.subtask = Subtask("source", self.index)

    def emit(self) -> Record:
        """The next record."""
        self.position += 1
        return self.index, self.position - 1

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


@dataclass(eq=False)
class SinkTask:
    """Remembers every record it has seen, in files, and writes it outside, in transactions."""

    index: int
    attempt: str
    term: int
    mode: Mode
    alignment: Alignment
    storage: Storage
    outside: Outside
    before: frozenset[Record]
    """What its state knows already."""
    restored: tuple[CheckpointId | None, KeyedHandle | None]
    replay: deque[Record] = field(default_factory=deque)
    buffer: list[Record] = field(default_factory=list)
    unconfirmed: list[Committable] = field(default_factory=list)
    in_use: dict[int, Committable] = field(default_factory=dict)
    """Numbers of its transactional ids whose work is not known to be visible."""
    epochs: dict[int, int] = field(default_factory=dict)
    """Its producers by number."""

    def __post_init__(self) -> None:
        self.channels: dict[int, deque[Record | Barrier]] = {
            n: deque() for n in self.mode.sources(self.index)
        }
        self.seen = set(self.before)
        self._latest = dict(sorted(self.seen))
        self.cut: Cut | None = None
        self.blocked: set[object] = set()
        self.taken = {self.restored[0]: self.restored[1]}
        self.subtask = Subtask("count", self.index)

    @property
    def ready(self) -> list[int]:
        """Channels something can be taken from."""
        if self.replay:
            return [next(iter(self.channels))]
        return [n for n, channel in self.channels.items() if channel and n not in self.blocked]

    def take(self, channel: int, *, compact: bool) -> list[Report]:
        """Take one element; a report if it was the last barrier of a checkpoint."""
        if self.replay:
            self._see(self.replay.popleft())
            return []
        element = self.channels[channel].popleft()
        if not isinstance(element, Barrier):
            self._see(element)
            return []
        return self._act(self.alignment.on(BarrierArrived(channel, element.checkpoint)), element, compact)

    def announce(self, barrier: Barrier, *, compact: bool) -> list[Report]:
        """An unaligned checkpoint starts at once, even with in-flight records of an earlier one."""
        return self._act(self.alignment.on(Announced(barrier.checkpoint)), barrier, compact)

    def deliver(self, channel: int, element: Record | Barrier) -> list[Report]:
        """A source sends."""
        self.channels[channel].append(element)
        return self._record(channel, element)

    def commit(self, work: tuple[Committable, ...]) -> tuple[tuple[Committable, Answer], ...]:
        """Make decided work visible; its ids are free again."""
        answers = tuple((each, self.outside.commit(each, self.storage)) for each in work)
        visible = {
            each
            for each, answer in answers
            if answer in (CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED)
        }
        self.in_use = {number: each for number, each in self.in_use.items() if each not in visible}
        return answers

    def _see(self, record: Record) -> None:
        source, position = record
        latest = self._latest.get(source, -1)
        require(position > latest or not self.mode.exactly_once, f"{record} comes after {(source, latest)}")
        self._latest[source] = position
        self.seen.add(record)
        self.buffer.append(record)

    def _act(self, actions: list[Action], barrier: Barrier, compact: bool) -> list[Report]:
        reports: list[Report] = []
        for action in actions:
            match action:
                case Block():
                    self.blocked.add(action.channel)
                case Unblock():
                    self.blocked.clear()
                case TakeSnapshot():
                    reports.append((action.checkpoint, self._snapshot(barrier, compact=compact)))
                case Overtake():
                    snapshot = self._snapshot(barrier, compact=compact)
                    self.cut = Cut(snapshot, set(action.channels), list(self.replay))
                    for channel, queue in self.channels.items():
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
            self._prepare(barrier.checkpoint)
        handle = self._handle(barrier, compact=compact)
        self.taken[barrier.checkpoint] = handle
        return OperatorReport(COUNT, self.index, keyed=handle, committables=tuple(self.unconfirmed))

    def _prepare(self, checkpoint: CheckpointId) -> None:
        number = next(n for n in itertools.count() if n not in self.in_use)
        name = f"{self.subtask}/{number}"
        if number not in self.epochs:
            self.epochs[number] = self.outside.begin(name, self.term)
        epoch = self.epochs[number]
        payload, describe = msgspec.msgpack.encode(self.buffer), f"{name}@{epoch} for {checkpoint}"
        work = Committable(COUNT, self.index, checkpoint, payload, describe, len(self.buffer))
        self.outside.prepare(name, epoch, work)
        self.in_use[number] = work
        self.unconfirmed.append(work)
        self.buffer = []

    def _handle(self, barrier: Barrier, *, compact: bool) -> KeyedHandle:
        """The files of the confirmed checkpoint and one with everything since, or one with everything."""
        before = self.taken.get(barrier.confirmed)
        chunks = before.chunks if before is not None and not compact else ()
        known = self.storage.union(chunk.name for chunk in chunks)  # type: ignore[union-attr] # all are stored
        new = self._upload(barrier.checkpoint, frozenset(self.seen - known))
        return KeyedHandle(ranges(SINKS, GROUPS)[self.index], None, (*chunks, new))

    def _upload(self, checkpoint: CheckpointId, content: frozenset[Record]) -> StoredChunk:
        return self.storage.chunk(f"{self.attempt}/{self.subtask}/{checkpoint}", content)
