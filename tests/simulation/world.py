"""The world of one seed: a coordinator, subtasks and storage under a scheduler that loses, repeats and delays.

Real are the coordinator, its ledger and file registry, the alignment and the metadata; everything around them is
simulated. Each step does one thing chosen by chance; after each step the invariants hold or `InvariantError` is raised.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from tests.simulation.outside import InvariantError, Outside, Storage, in_flight, require
from tests.simulation.tasks import COUNT, GROUPS, SINKS, SOURCE, Report, SinkTask, SourceTask
from tidegate.backends.spi import InlineChunk
from tidegate.elements import Barrier
from tidegate.errors import CommitFailedError, CommitUnknownError, UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, PipelineId, RunId, Subtask
from tidegate.runtime.checkpoint import coordinator as cp
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, files_of
from tidegate.runtime.checkpoint.retention import FileRegistry
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.twophase import ledger
from tidegate.twophase.spi import CommitAnswer, Committable

__all__ = ["World"]

SOURCES = 2
RECORDS = 60
PLAN = cp.Plan(
    subtasks=(
        *(Subtask("source", n) for n in range(SOURCES)),
        *(Subtask("count", n) for n in range(SINKS)),
    ),
    sources=tuple(Subtask("source", n) for n in range(SOURCES)),
    interval_ms=200,
    timeout_ms=1_000,
    retained=2,
)
ALIGNED_MS: tuple[int | None, ...] = (None, 0, 150)
"""How long checkpoints wait for what is in front of their barriers; a seed has one of them."""

NOTHING = InlineChunk(msgspec.msgpack.encode([]))
Deliver = Callable[[], None]


class CrashError(Exception):
    """The process of the coordinator dies here."""


class World:
    """One run of a pipeline from its first record to its last checkpoint, through every misfortune of a seed."""

    def __init__(
        self,
        seed: int,
        coordinator: type[cp.CheckpointCoordinator] = cp.CheckpointCoordinator,
        registry: type[FileRegistry] = FileRegistry,
        sink: type[SinkTask] = SinkTask,
    ) -> None:
        self.chance = random.Random(seed)
        self._plan = dataclasses.replace(PLAN, aligned_ms=ALIGNED_MS[seed % len(ALIGNED_MS)])
        self._overtakable = self.chance.choice(((0, 1), (0, 1), (0,)))
        self.storage = Storage()
        self.outside = Outside(self.chance)
        self.trace: list[str] = []
        self.faulty = True
        self.stopped: Exception | None = None
        self.ended = False
        self._coordinator_type, self._registry_type, self._sink_type = coordinator, registry, sink
        self._now = 0
        self.sources: list[SourceTask] = []
        self.sinks: list[SinkTask] = []
        self._finishing = False
        self._used: set[CheckpointId] = set()
        self._start()

    def run(self, steps: int = 600) -> None:
        """Misfortune for some steps, then a calm end in which everything must become visible."""
        for _ in range(steps):
            self._survive(self._step)
        self.faulty = self.outside.faulty = False
        self._survive(self._crash)
        for _ in range(20 * steps):
            if self.ended or self.stopped:
                break
            if all(source.position == RECORDS for source in self.sources) and not self._finishing:
                self._finishing = True
                self._survive(lambda: self._perform(self.coordinator.on(cp.Finish("finish"))))
            self._survive(self._step)
        require(self.ended or self.stopped is not None, "the run never ends")
        if self.ended:
            everything = {(source, n) for source in range(SOURCES) for n in range(RECORDS)}
            require(set(self.outside.visible) == everything, "the output is not complete")

    def _survive(self, act: Deliver) -> None:
        if self.stopped or self.ended:
            return
        try:
            act()
        except (CrashError, UnavailableError):
            self._crash()
        except (CommitFailedError, CommitUnknownError) as error:
            self._note(f"stopped for a person: {error}")
            self.stopped = error
        self.storage.check()

    def _note(self, text: str) -> None:
        self.trace.append(f"{self._now:>7} ms  {text}")

    # Starting and dying

    def _crash(self) -> None:
        """The coordinator dies; what was on its way to the storage arrives or not, what was on the network is lost."""
        self._note("crash")
        self._dead = True
        with contextlib.suppress(CrashError):
            while self._storage_queue and self.chance.random() < 0.5:
                self._storage_queue.popleft()()
        late = [operation for operation in self._storage_queue if isinstance(operation, partial)]
        self._survive(self._start)
        # The old owner may only have been slow: it still tries to decide when there is a new one.
        self._network += [(True, operation) for operation in late]

    def _start(self) -> None:
        self.storage.term += 1
        self._storage_queue: deque[Deliver] = deque()
        self._network: list[tuple[bool, Deliver]] = []
        self._pending: CheckpointId | None = None
        self._finishing = self._dead = False
        self._term = self.storage.term
        newest = self._recover()
        self.outside.abort(list(self.outside.prepared))
        registry = self._registry_type(PLAN.retained)
        for kept in self.storage.retained:
            registry.decided(kept[1], files_of(self.storage.load(kept)))
        self.coordinator: cp.CheckpointCoordinator = self._coordinator_type(
            self._plan,
            # Who died may have been at the number after the newest one.
            CheckpointId(self.storage.newest_id + (2 if self._term > 1 else 1)),
            confirmed=newest.checkpoint if newest else None,
            registry=registry,
        )
        self._build(newest)
        self._note(f"term {self._term} goes on from {newest.checkpoint if newest else 'nothing'}")

    def _recover(self) -> Manifest | None:
        """Settle the newest decided checkpoint, or go back if nothing of it will ever be visible."""
        if not self.storage.retained:
            return None
        newest = self.storage.load(self.storage.retained[-1])
        settled = self.storage.newest_settled()
        book = ledger.Ledger()
        todo: deque[ledger.Action] = deque()
        for each in newest.unsettled:
            if settled is None or each.checkpoint > settled[1]:
                todo.extend(book.on(ledger.Decided(each.checkpoint, each.committables)))
        while todo:
            match action := todo.popleft():
                case ledger.Commit():
                    self._check_order(action.checkpoint)
                    todo.extend(
                        book.on(ledger.Answered(action.checkpoint, self._commit(action.committables)))
                    )
                case ledger.Settle():
                    self._mark(action.checkpoint)
                case ledger.Replay():
                    self._note(f"checkpoint {action.checkpoint} was aborted")
                    settled = self.storage.newest_settled()
                    keep = 0 if settled is None else self.storage.retained.index(settled) + 1
                    del self.storage.retained[keep:]
                    return self.storage.load(settled) if settled else None
                case ledger.Fail():
                    raise action.error
        return newest

    def _build(self, newest: Manifest | None) -> None:
        attempt = f"term-{self._term}"
        counted = newest.operator(COUNT) if newest else None
        read = newest.operator(SOURCE) if newest else None
        self.sinks = []
        for index in range(SINKS):
            handle = counted.keyed[index] if counted else None
            names = [chunk.name for chunk in handle.chunks] if handle else []  # type: ignore[union-attr] # all are stored
            restored = (newest.checkpoint if newest else None, handle)
            mine = [record for record in in_flight(newest) if record[1] % SINKS == index] if newest else []
            self.sinks.append(
                self._sink_type(
                    index,
                    attempt,
                    self.storage,
                    self.outside,
                    self.storage.union(names),
                    restored,
                    self._overtakable,
                    deque(mine),
                )
            )
        positions = dict(msgspec.msgpack.decode(split) for split in read.splits) if read else {}
        self.sources = [SourceTask(n, positions.get(n, 0)) for n in range(SOURCES)]

    # One step

    def _step(self) -> None:
        """One thing happens, chosen by chance among what can happen."""
        choices: list[Deliver] = [self._tick]
        unread = [source for source in self.sources if source.position < RECORDS]
        choices += [partial(self._emit, source) for source in unread]
        choices += [lambda sink=sink: self._take(sink) for sink in self.sinks if sink.ready]  # type: ignore[misc] # bound per sink
        choices += [self._deliver] * min(3, len(self._network))
        choices += [self._store] * (1 if self._storage_queue else 0)
        if self.faulty and self.chance.random() < 0.004:
            choices = [self._crash]
        elif self.faulty and self.chance.random() < 0.002 and self.outside.prepared:
            choices = [self._time_out]
        elif self.chance.random() < 0.02:
            choices = [self._want_savepoint]
        self.chance.choice(choices)()

    def _tick(self) -> None:
        self._now += self.chance.choice((10, 50, 150))
        self._perform(self.coordinator.on(cp.Tick(self._now)))

    def _emit(self, source: SourceTask) -> None:
        target, record = source.emit()
        self._reports(self.sinks[target], self.sinks[target].deliver(source.index, record))

    def _take(self, sink: SinkTask) -> None:
        taken = sink.take(self.chance.choice(sink.ready), compact=self.chance.random() < 0.1)
        self._reports(sink, taken)

    def _announce(self, sink: SinkTask, barrier: Barrier) -> None:
        self._reports(sink, sink.announce(barrier, compact=self.chance.random() < 0.1))

    def _reports(self, sink: SinkTask, reports: list[Report]) -> None:
        for number, report in reports:
            if report.in_flight not in (None, NOTHING):
                self._note(f"{sink.subtask} has overtaken records")
            self._report(sink.subtask, number, report)

    def _deliver(self) -> None:
        """Some message arrives; one that may be lost is lost now and then, or stays and arrives again."""
        at = self.chance.randrange(len(self._network))
        fragile, arrive = self._network.pop(at)
        if self.faulty and fragile:
            if self.chance.random() < 0.05:
                return
            if self.chance.random() < 0.1:
                self._network.append((fragile, arrive))
        arrive()

    def _store(self) -> None:
        self._storage_queue.popleft()()

    def _time_out(self) -> None:
        works = sorted(self.outside.prepared, key=lambda work: work.describe)
        self.outside.abort(works if self.chance.random() < 0.7 else works[:1])
        self._note("transactions time out")

    def _want_savepoint(self) -> None:
        self._perform(
            self.coordinator.on(cp.SavepointWanted(f"savepoint-{self._now}-{self.chance.random()}"))
        )

    # What the coordinator wants

    def _perform(self, actions: list[cp.Action]) -> None:
        for action in () if self._dead else actions:
            self._note(str(action)[:160])
            match action:
                case cp.TriggerSources():
                    self._trigger(action)
                case cp.Announce():
                    barrier = Barrier(action.checkpoint, action.confirmed)
                    for sink in self.sinks:
                        self._network.append((True, partial(self._announce, sink, barrier)))
                case cp.WriteMetadata():
                    self._storage_queue.append(lambda action=action: self._write(action))  # type: ignore[misc] # bound
                case cp.SwapLatest():
                    self._storage_queue.append(partial(self._swap, self._term, action.checkpoint))
                case cp.CommitWork():
                    self._send_work(action)
                case cp.WriteSettled():
                    self._storage_queue.append(lambda n=action.checkpoint: self._write_settled(n))  # type: ignore[misc]
                case cp.Settled():
                    self._storage_queue.append(lambda release=action.release: self.storage.release(release))  # type: ignore[misc]
                case cp.WriteSavepoint():
                    self._network.append((False, lambda action=action: self._write_savepoint(action)))  # type: ignore[misc] # bound
                case cp.Abort():
                    self._pending = None
                case cp.Ended():
                    self.ended = True
                case cp.FailJob():
                    self._fail(action.error)

    def _trigger(self, action: cp.TriggerSources) -> None:
        number = action.checkpoint
        require(self._pending is None, f"{number} is triggered while {self._pending} is on its way")
        require(
            number > self.storage.newest_id,
            f"{number} is triggered after {self.storage.newest_id} was decided",
        )
        require(number not in self._used, f"{number} is triggered for the second time")
        self._used.add(number)
        self.storage.newest_id = max(self.storage.newest_id, CheckpointId(number - 1))
        self._pending = number
        barrier = Barrier(number, action.confirmed)
        for source in self.sources:
            self._network.append((True, lambda source=source: self._read_to(source, barrier)))  # type: ignore[misc]

    def _read_to(self, source: SourceTask, barrier: Barrier) -> None:
        report = source.trigger(barrier)
        if report is None:
            return
        for sink in self.sinks:
            self._reports(sink, sink.deliver(source.index, barrier))
        self._report(Subtask("source", source.index), barrier.checkpoint, report)

    def _report(self, subtask: Subtask, number: CheckpointId, report: OperatorReport) -> None:
        ack: cp.Event = cp.Ack(subtask, number, (report,))
        if self.faulty and self.chance.random() < 0.03:
            ack = cp.Decline(subtask, number, UnavailableError("no space left"))
        self._network.append((True, lambda: self._perform(self.coordinator.on(ack))))

    def _write(self, action: cp.WriteMetadata) -> None:
        if self.faulty and self.chance.random() < 0.1:
            failed = cp.MetadataFailed(action.checkpoint, UnavailableError("the storage did not answer"))
            return self._perform(self.coordinator.on(failed))
        manifest = _assemble(action)
        files = self.storage.write(self._term, manifest)
        return self._perform(self.coordinator.on(cp.MetadataDurable(action.checkpoint, files)))

    def _swap(self, term: int, number: CheckpointId) -> None:
        if self.faulty and self.chance.random() < 0.02:
            failed = cp.MetadataFailed(number, UnavailableError("the storage took no change"))
            return self._perform(self.coordinator.on(failed))
        if not self.storage.swap(term, number):
            return self._note(f"term {term} is fenced")
        if self.faulty and self.chance.random() < 0.02:
            raise CrashError
        self._pending = None
        return self._perform(self.coordinator.on(cp.Swapped(number)))

    def _send_work(self, action: cp.CommitWork) -> None:
        self._check_order(action.checkpoint)
        for index in sorted({work.subtask for work in action.committables}):
            mine = tuple(work for work in action.committables if work.subtask == index)
            self._network.append((False, lambda mine=mine: self._answer(action.checkpoint, mine)))  # type: ignore[misc]

    def _answer(self, number: CheckpointId, work: tuple[Committable, ...]) -> None:
        answered = ledger.Answered(number, self._commit(work))
        if self.faulty and self.chance.random() < 0.02:
            raise CrashError
        self._network.append((True, lambda: self._perform(self.coordinator.on(answered))))

    def _commit(self, work: tuple[Committable, ...]) -> tuple[tuple[Committable, CommitAnswer], ...]:
        return tuple((each, self.outside.commit(each, self.storage)) for each in work)

    def _write_settled(self, number: CheckpointId) -> None:
        self._mark(number)
        self._perform(self.coordinator.on(cp.SettledDurable(number)))

    def _mark(self, number: CheckpointId) -> None:
        kept = next((each for each in self.storage.retained if each[1] == number), None)
        if kept is None:
            return
        self.storage.settled.add(kept)
        held = self.storage.content(self.storage.load(kept))
        missing = held - self.outside.visible.keys()
        require(not missing, f"checkpoint {number} is settled and {missing} are not visible")

    def _write_savepoint(self, action: cp.WriteSavepoint) -> None:
        if self.chance.random() < 0.98:  # writing takes its time
            self._network.append((False, lambda: self._write_savepoint(action)))
            return
        kept = next((each for each in self.storage.retained if each[1] == action.checkpoint), None)
        require(kept is not None, f"checkpoint {action.checkpoint} is gone before its savepoint is written")
        assert kept is not None
        self.storage.content(self.storage.load(kept))
        require(
            not in_flight(self.storage.load(kept)),
            f"savepoint {action.checkpoint} holds records on their way",
        )
        self._perform(self.coordinator.on(cp.SavepointOver(action.place)))

    def _check_order(self, number: CheckpointId) -> None:
        earlier = [
            kept for kept in self.storage.retained if kept[1] < number and kept not in self.storage.settled
        ]
        newest = self.storage.newest_settled()
        open_work = [kept for kept in earlier if newest is None or kept > newest]
        waiting = {work for kept in open_work for work in self.storage.load(kept).unsettled[-1].committables}
        require(waiting <= self.outside.done, f"{number} is committed before what was decided earlier")

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, UnavailableError | CommitFailedError | CommitUnknownError):
            raise InvariantError(str(error))
        raise error


def _assemble(action: cp.WriteMetadata) -> Manifest:
    def reports(uid: str) -> list[Any]:
        return sorted((r for r in action.reports if r.uid == uid), key=lambda report: report.subtask)

    splits = tuple(split for report in reports(SOURCE) for split in report.splits)
    keyed = tuple(report.keyed for report in reports(COUNT) if report.keyed is not None)
    in_flight = tuple(report.in_flight for report in reports(COUNT) if report.in_flight is not None)
    return Manifest(
        pipeline=PipelineId("simulated"),
        lineage=LineageId("l"),
        branch=Branch(0),
        run=RunId("r"),
        checkpoint=action.checkpoint,
        parent=None,
        created_ms=0,
        operators=(
            OperatorState(SOURCE, "source", SOURCES, GROUPS, splits=splits),
            OperatorState(COUNT, "count", SINKS, GROUPS, keyed=keyed, in_flight=in_flight),
        ),
        unsettled=action.unsettled,
    )
