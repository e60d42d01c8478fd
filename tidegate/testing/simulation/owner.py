"""Simulated owner of a pipeline for one attempt: performs the actions of the state machines, with delays.

It represents the coordinating process, its workers, and all messages between them and to the storage.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from tidegate.backends.spi import InlineChunk, StoredChunk
from tidegate.clock import ManualClock
from tidegate.elements import Barrier
from tidegate.errors import (
    CommitFailedError,
    CommitUnknownError,
    FencedError,
    UnavailableError,
)
from tidegate.ids import CheckpointId, RunId, Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.schedule import failover as fo
from tidegate.runtime.schedule.heartbeats import Ask
from tidegate.runtime.schedule.regions import joined
from tidegate.runtime.schedule.restart import FixedDelay
from tidegate.runtime.schedule.states import JobLife
from tidegate.testing.simulation.context import SimulationContext
from tidegate.testing.simulation.metadata import assemble
from tidegate.testing.simulation.outside import in_flight, require
from tidegate.testing.simulation.tasks import COUNT, SINKS, SOURCE, SOURCES, Report, SinkTask, SourceTask
from tidegate.testing.simulation.trace import trace_line
from tidegate.twophase.spi import Committable

__all__ = ["LEASE_MS", "RECORDS", "CrashError", "Owner"]

RECORDS: Final = 40
LEASE_MS: Final = 3_000
_BEAT_MS, _SILENT_MS = 300, 1_500
_PLAN: Final = cp.Plan(
    subtasks=(
        *(Subtask("source", n) for n in range(SOURCES)),
        *(Subtask("count", n) for n in range(SINKS)),
    ),
    sources=tuple(Subtask("source", n) for n in range(SOURCES)),
    interval_ms=200,
    timeout_ms=1_000,
    retained=2,
)

Act = Callable[[], None]
Task = SourceTask | SinkTask


class _OwnClock(ManualClock):
    """What an owner and its workers take for the time."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._owner = owner

    def monotonic(self) -> float:
        return self._owner.now / 1000


class CrashError(Exception):
    """The coordinator's process is killed here."""


@dataclass(frozen=True, slots=True)
class _Message:
    """Something between the coordinator and a worker; a `fragile` one may be lost or duplicated."""

    fragile: bool
    task: Task
    arrive: Act


class Owner:
    """Runs from a checkpoint; its next action is one of `choices`."""

    def __init__(
        self, around: SimulationContext, run: RunId, term: int, newest: Manifest | None, first: CheckpointId
    ) -> None:
        self._around, self._chance, self._storage = around, around.chance, around.storage
        self.run, self.term = run, term
        self.ended = self.finishing = False
        self._queue: deque[Act] = deque()
        """To the storage, which does one thing after the other."""
        self._answers_at = 0
        """When the storage does, that is slow at times."""
        self._savepoints: deque[Act] = deque()
        """Those that are written, beside all else."""
        self._wires: list[_Message] = []
        self._pending: CheckpointId | None = None
        # Where its clock stands means nothing, and it goes its own way.
        self.now = self._chance.randrange(100_000)
        self._renew_at = 0
        self._lease = around.machines.lease(_OwnClock(self), LEASE_MS)
        self._lease.renewed((self.now + LEASE_MS) / 1000)
        self._tasks: dict[Subtask, Task] = {}
        self._parts = joined(
            {Subtask("source", source), Subtask("count", sink)}
            for sink in range(SINKS)
            for source in around.mode.sources(sink)
        )
        machines = around.machines
        registry = machines.registry(_PLAN.retained)
        for kept in self._storage.retained:
            registry.decided(kept[1], self._storage.needed[kept])
        self.coordinator = machines.coordinator(
            dataclasses.replace(_PLAN, aligned_ms=around.mode.aligned_ms),
            first,
            confirmed=newest.checkpoint if newest else None,
            registry=registry,
        )
        self._restart = FixedDelay(attempts=3, delay_ms=100)
        self._failover = machines.failover(self._restart)
        self._heartbeats = machines.heartbeats(_BEAT_MS, _SILENT_MS)
        self._hung_ms: dict[int, int] = {}
        self._ticks_silent: dict[int, int] = {}
        """Since a worker answered; before its first answer it is not in here."""
        self.life = JobLife()
        for part in range(len(self._parts)):
            self._build(part, newest)
        self.life.become("running")

    @property
    def read(self) -> bool:
        """Whether all input is read."""
        sources = (task for task in self._tasks.values() if isinstance(task, SourceTask))
        return not self._failover.down and all(source.position == RECORDS for source in sources)

    def choices(self) -> list[Act]:
        """What can happen next."""
        found: list[Act] = [self._tick]
        for task in self._tasks.values() if self._lease.holds() else ():
            if isinstance(task, SourceTask) and task.position < RECORDS and self._up(task):
                found.append(partial(self._emit, task))
            elif isinstance(task, SinkTask) and task.ready and self._up(task):
                found.append(partial(self._take, task))
        found += [self._deliver] * min(3, len(self._wires))
        if self._queue and self._answers_at <= self.now:
            found.append(self._store)
        if self._savepoints and self._chance.random() < 0.1:
            found.append(self._savepoints[0])
        return found

    def finish(self) -> None:
        """Take the last checkpoint."""
        self.finishing = True
        self._tell(cp.Finish("finish"))

    def want_savepoint(self) -> None:
        """Somebody asks for a savepoint."""
        self._tell(cp.SavepointWanted(f"savepoint-{self._chance.randrange(10**6)}"))

    def hang(self) -> None:
        """A worker hangs after it was alive."""
        alive = [part for part in self._ticks_silent if part not in self._hung_ms]
        if alive:
            part = self._chance.choice(alive)
            self._hung_ms[part] = 0
            self._around.note(f"worker {part} hangs")

    def fail(self) -> None:
        """A worker dies."""
        up = [part for part in range(len(self._parts)) if part not in self._failover.down]
        if up:
            self._fail(self._chance.choice(up), "is gone")

    def drain(self) -> None:
        """An attempt ends by itself: pending storage requests are performed, and their answers are lost."""
        self.ended = True
        while self._savepoints:
            self._savepoints[0]()
        while self._queue:
            self._queue.popleft()()

    def die(self) -> None:
        """The process is killed: pending storage requests arrive or not."""
        self.ended = True
        while self._queue and self._chance.random() < 0.5:
            self._queue.popleft()()

    # What happens by itself

    def _tick(self) -> None:
        step = self._chance.choice((10, 50, 150))
        if self._around.strikes(0.01):
            step = 10_000
            self._around.note("stood still for 10 s")
        self.now += step
        self._tell(cp.Tick(self.now))
        self._beat(min(step, _BEAT_MS))
        for action in self._failover.on(fo.Tick(self.now, self.coordinator.quiet)):
            assert isinstance(action, fo.Start)
            self._bring_back(action.part)
        if self.now >= self._renew_at:
            self._renew_at = self.now + LEASE_MS // 3
            self._queue.append(self._renew)

    def _beat(self, looked_on_ms: int) -> None:
        for part in self._ticks_silent:
            self._ticks_silent[part] += 1
        for part in self._hung_ms:
            self._hung_ms[part] += looked_on_ms
        for beat in self._heartbeats.tick(self.now):
            if isinstance(beat, Ask):
                self._send(self._task_of(beat.worker), partial(self._answers, beat.worker), fragile=True)
                continue
            looked_on = self._ticks_silent[beat.worker] * _BEAT_MS
            require(looked_on >= _SILENT_MS, f"worker {beat.worker} was declared lost after {looked_on} ms")
            self._fail(beat.worker, f"has not answered for {beat.for_ms} ms")
        for part, hung_ms in self._hung_ms.items():
            require(hung_ms < _SILENT_MS, f"worker {part} hangs for {hung_ms} ms and is not declared lost")

    def _answers(self, part: int) -> None:
        self._ticks_silent[part] = 0
        self._heartbeats.answered(part)

    def _emit(self, source: SourceTask) -> None:
        record = source.emit()
        sink = self._sink(self._around.mode.target(record))
        self._reports(sink, sink.deliver(source.index, record))

    def _take(self, sink: SinkTask) -> None:
        channel, compact = self._chance.choice(sink.ready), self._chance.random() < 0.1
        self._reports(sink, sink.take(channel, compact=compact))

    def _deliver(self) -> None:
        """Some message arrives; one that may be lost is lost now and then, or stays and arrives again."""
        at = self._chance.randrange(len(self._wires))
        if self._hangs(self._wires[at].task):
            return
        message = self._wires.pop(at)
        if message.fragile and self._around.strikes(0.05):
            return
        if message.fragile and self._around.strikes(0.1):
            self._wires.append(message)
        message.arrive()

    def _store(self) -> None:
        if self._around.strikes(0.05):
            self._answers_at = self.now + 500
            return
        self._queue.popleft()()

    def _renew(self) -> None:
        self._require_ownership()
        self._storage.renewals += 1
        self._lease.renewed((self.now + LEASE_MS) / 1000)

    def _require_ownership(self) -> None:
        if not self._storage.owned(self.run):
            raise FencedError(f"term {self.term} was replaced")

    # Workers

    def _build(self, part: int, newest: Manifest | None) -> None:
        """Start a part from a checkpoint."""
        mode, machines = self._around.mode, self._around.machines
        self._storage.attempts += 1
        attempt = f"term-{self.term}.{self._storage.attempts}"
        read = newest.operator(SOURCE) if newest else None
        positions = dict(msgspec.msgpack.decode(split) for split in read.splits) if read else {}
        counted = newest.operator(COUNT) if newest else None
        for subtask in sorted(self._parts[part]):
            if subtask.vertex == "source":
                self._tasks[subtask] = SourceTask(subtask.index, positions.get(subtask.index, 0))
                continue
            handle = counted.keyed[subtask.index] if counted else None
            names = (
                [chunk.name for chunk in handle.chunks if isinstance(chunk, StoredChunk)] if handle else []
            )
            mine = (
                [record for record in in_flight(newest) if mode.target(record) == subtask.index]
                if newest
                else []
            )
            alignment = machines.alignment(
                mode.sources(subtask.index), blocking=mode.exactly_once, overtakable=mode.overtakable
            )
            restored = (newest.checkpoint if newest else None, handle)
            known = self._storage.union(names)
            self._tasks[subtask] = machines.sink(
                *(subtask.index, attempt, self.term, mode, alignment, self._storage, self._around.outside),
                *(known, restored, deque(mine)),
            )
        self._heartbeats.watch(part)

    def _fail(self, part: int, how: str) -> None:
        """A part failed; it restarts alone if independent parts run."""
        why = f"worker {part} {how}"
        self._around.note(why)
        if len(self._parts) == 1 or self.finishing:
            raise UnavailableError(why)
        for action in self._failover.on(fo.PartFailed(part, self.now)):
            if isinstance(action, fo.GiveUp):
                raise UnavailableError("the restarts are exhausted")
            self.life.become("restarting")
            self._take_down(part)

    def _take_down(self, part: int) -> None:
        self._heartbeats.forget([part])
        self._hung_ms.pop(part, None)
        self._ticks_silent.pop(part, None)
        for subtask in self._parts[part]:
            del self._tasks[subtask]
        self._wires = [message for message in self._wires if message.task in self._tasks.values()]
        self._tell(cp.Pause(f"worker {part} restarts"))
        for checkpoint, work in list(self.coordinator.unsettled.items())[:1]:
            mine = tuple(each for each in work if Subtask("count", each.subtask) in self._parts[part])
            self._commit(cp.Commit(checkpoint, mine))

    def _bring_back(self, part: int) -> None:
        self._require_ownership()
        mine = tuple(f"{subtask}/" for subtask in self._parts[part])
        outside = self._around.outside
        seen = {name: epoch for name, epoch in outside.epochs.items() if name.startswith(mine)}
        outside.fence(seen, self._storage, self.term)
        newest = self._storage.load(self._storage.retained[-1]) if self._storage.retained else None
        self._build(part, newest)
        self._around.note(f"worker {part} restored {newest.checkpoint if newest else 'nothing'}")
        if not self._failover.down:
            self._tell(cp.Resume())
            self.life.become("running")

    def _up(self, task: Task) -> bool:
        return self._tasks.get(task.subtask) is task and not self._hangs(task)

    def _hangs(self, task: Task) -> bool:
        return bool(self._hung_ms) and any(task.subtask in self._parts[part] for part in self._hung_ms)

    def _sink(self, index: int) -> SinkTask:
        task = self._tasks[Subtask("count", index)]
        assert isinstance(task, SinkTask)
        return task

    def _task_of(self, part: int) -> Task:
        return self._tasks[min(self._parts[part])]

    def _send(self, task: Task, arrive: Act, *, fragile: bool) -> None:
        self._wires.append(_Message(fragile, task, arrive))

    def _reports(self, sink: SinkTask, reports: list[Report]) -> None:
        for number, report in reports:
            if isinstance(report.in_flight, InlineChunk) and msgspec.msgpack.decode(report.in_flight.data):
                self._around.note(f"{sink.subtask} has overtaken records")
            self._report(sink, number, report)

    def _report(self, task: Task, number: CheckpointId, report: OperatorReport) -> None:
        ack: cp.Event = cp.Ack(task.subtask, number, (report,))
        if self._around.strikes(0.03):
            ack = cp.Decline(task.subtask, number, UnavailableError("no space left"))
        self._send(task, partial(self._tell, ack), fragile=True)

    # What the coordinator wants

    def _tell(self, *events: cp.Event) -> None:
        for event in events:
            if self.ended:
                return
            self._say(event)
            for action in self.coordinator.on(event):
                self._say(action)
                self._perform(action)

    def _say(self, said: cp.Event | cp.Action) -> None:
        if (words := trace_line(said)) is not None:
            self._around.note(words)

    def _perform(self, action: cp.Action) -> None:
        match action:
            case cp.Trigger():
                self._pends(action.checkpoint)
                self._queue.append(partial(self._trigger, action))
            case cp.Announce():
                barrier = Barrier(action.checkpoint, action.confirmed)
                for task in self._tasks.values():
                    if isinstance(task, SinkTask):
                        self._send(task, partial(self._announce, task, barrier), fragile=True)
            case cp.WriteMetadata():
                self._queue.append(partial(self._write, action))
            case cp.SwapLatest():
                self._queue.append(partial(self._swap, action.checkpoint))
            case cp.Commit():
                self._commit(action)
            case cp.Settle():
                self._queue.append(partial(self._settle, action.checkpoint))
            case cp.Release():
                self._queue.append(partial(self._release, action))
            case cp.WriteSavepoint():
                self._savepoints.append(partial(self._write_savepoint, action))
            case cp.Abort():
                self._pending = None
            case cp.EndJob():
                self.ended = True
                self.life.become("finished")
            case cp.FailJob():
                known = FencedError, UnavailableError, CommitFailedError, CommitUnknownError
                require(isinstance(action.error, known), str(action.error))
                raise action.error

    def _pends(self, number: CheckpointId) -> None:
        newest = self._storage.newest_id
        require(self._pending is None, f"{number} is triggered while {self._pending} is pending")
        self._pending = number
        if self._storage.owned(self.run):
            require(number > newest, f"{number} is triggered after {newest} was decided")

    def _trigger(self, action: cp.Trigger) -> None:
        number = action.checkpoint
        if not self._storage.use(self.run, number):
            raise FencedError(f"term {self.term} was replaced")
        if self._storage.owned(self.run):
            require(number not in self._around.used, f"{number} is triggered for the second time")
            self._around.used.add(number)
        barrier = Barrier(number, action.confirmed)
        for task in self._tasks.values():
            if isinstance(task, SourceTask):
                self._send(task, partial(self._read_to, task, barrier), fragile=True)

    def _read_to(self, source: SourceTask, barrier: Barrier) -> None:
        report = source.trigger(barrier)
        if report is None:
            return
        for index in range(SINKS):
            if source.index in self._around.mode.sources(index):
                sink = self._sink(index)
                self._reports(sink, sink.deliver(source.index, barrier))
        self._report(source, barrier.checkpoint, report)

    def _announce(self, sink: SinkTask, barrier: Barrier) -> None:
        self._reports(sink, sink.announce(barrier, compact=self._chance.random() < 0.1))

    def _write(self, action: cp.WriteMetadata) -> None:
        if self._around.strikes(0.1):
            failed = UnavailableError("the storage did not answer")
            self._tell(cp.MetadataFailed(action.checkpoint, failed))
            return
        files = self._storage.write(self.term, assemble(action))
        self._tell(cp.MetadataDurable(action.checkpoint, files))

    def _swap(self, number: CheckpointId) -> None:
        if self._around.strikes(0.02):
            self._tell(cp.MetadataFailed(number, UnavailableError("the storage rejected the change")))
        elif not self._storage.swap(self.run, self.term, number):
            self._tell(cp.SwapLost(number, f"term {self._storage.term} owns the pipeline"))
        elif self._around.strikes(0.02):
            raise CrashError
        elif self._around.strikes(0.01):
            raise UnavailableError("the outcome of a storage change is unknown")
        else:
            self._pending = None
            self._restart.progressed()
            self._tell(cp.Swapped(number))

    def _commit(self, action: cp.Commit) -> None:
        self._around.check_order(action.checkpoint)
        for index in sorted({work.subtask for work in action.committables}):
            mine = tuple(work for work in action.committables if work.subtask == index)
            task = self._tasks.get(Subtask("count", index))
            if task is None:
                self._queue.append(partial(self._commit_here, action.checkpoint, mine))
            else:
                self._send(task, partial(self._commit_there, action.checkpoint, mine), fragile=False)

    def _commit_there(self, number: CheckpointId, work: tuple[Committable, ...]) -> None:
        """A worker commits what it has prepared."""
        sink = self._sink(work[0].subtask)
        answered = cp.Answered(number, sink.commit(work))
        if self._around.strikes(0.02):
            raise CrashError
        self._send(sink, partial(self._tell, answered), fragile=False)

    def _commit_here(self, number: CheckpointId, work: tuple[Committable, ...]) -> None:
        """The coordinator commits the prepared work of a lost worker."""
        answers = tuple((each, self._around.outside.commit(each, self._storage)) for each in work)
        self._tell(cp.Answered(number, answers))

    def _settle(self, number: CheckpointId) -> None:
        if self._around.strikes(0.05):
            self._queue.append(partial(self._settle, number))
            return
        self._around.mark_settled(number)
        self._tell(cp.SettledDurable(number))

    def _release(self, action: cp.Release) -> None:
        self._require_ownership()
        if self._around.strikes(0.05):
            self._queue.append(partial(self._release, action))
        else:
            self._storage.release(action)

    def _write_savepoint(self, action: cp.WriteSavepoint) -> None:
        self._savepoints.popleft()
        kept = next((each for each in self._storage.retained if each[1] == action.checkpoint), None)
        if kept is None:
            self._require_ownership()
        require(
            kept is not None, f"checkpoint {action.checkpoint} was deleted before its savepoint is written"
        )
        assert kept is not None
        manifest = self._storage.load(kept)
        self._storage.content(manifest)
        require(not in_flight(manifest), f"savepoint {action.checkpoint} holds in-flight records")
        self._tell(cp.SavepointOver(action.place))
