"""Performer of the coordinator's actions with workers: they take part in checkpoints and commit what they prepared.

The storage is used by a thread of its own; what comes of that goes through the queue of the attempt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tidegate.clock import Clock
from tidegate.errors import TidegateError, UnavailableError
from tidegate.failures import end_of
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.embedded.failover_regions import FailoverRegions
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.embedded.sources import SourceCoordination
from tidegate.runtime.embedded.worker_group import EventQueue, WorkerGroup
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.performer import ActionPerformer
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task.messages import ToSubtask
from tidegate.twophase.committing import Answers
from tidegate.twophase.spi import Committable, Retry

__all__ = ["BackgroundFailed", "SettleMarkFailed", "WorkerPerformer"]

_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class BackgroundFailed:
    """Something done in the background failed for good."""

    error: TidegateError


@dataclass(frozen=True, slots=True)
class SettleMarkFailed:
    """The storage did not take the mark of a checkpoint whose output is visible."""

    checkpoint: CheckpointId
    error: UnavailableError


class WorkerPerformer(ActionPerformer):
    """Performs actions of an attempt whose subtasks run in workers all the time."""

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        regions: FailoverRegions,
        sources: SourceCoordination,
        events: EventQueue,
        copies: LocalRecovery,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
    ) -> None:
        super().__init__(startup, start, startup.coordinator(start.graph, start), clock, status, restart)
        self._regions = regions
        self._sources = sources
        self._events = events
        self._copies = copies
        self._vertex_of = {uid: v.id for v in start.graph.vertices.values() for uid in v.nodes}
        self._storage = ThreadPoolExecutor(1, thread_name_prefix="tidegate-storage")
        self._savepoints = ThreadPoolExecutor(1, thread_name_prefix="tidegate-savepoint")
        self._later: list[tuple[float, Callable[[], object]]] = []

    @property
    def ending(self) -> bool:
        """Whether the input has ended or the job is stopping."""
        return not self._sources.undrained or self._status.state == "stopping"

    def soon(self, work: Callable[[], object], delay_s: float = _RETRY_S) -> None:
        """Do something in the coordinator's thread after a delay."""
        self._later.append((self._clock.monotonic() + delay_s, work))

    def tick(self) -> None:
        """Do what is due.

        Raises:
            CommitFailedError: decided output is refused for too long.
        """
        now = self._clock.monotonic()
        self.check_refused(ending=self.ending)
        due = [work for at, work in self._later if at <= now]
        self._later = [(at, work) for at, work in self._later if at > now]
        for work in due:
            work()

    def begin(self, trigger: cp.Trigger) -> None:
        """Begin a checkpoint whose number no other one will have, unless a later one has begun meanwhile."""
        number = trigger.checkpoint
        if number + 1 < self.coordinator.next_id:
            return
        self._status.note("triggered", f"checkpoint {number}", checkpoint=number)
        self._enumerated = {number: self._sources.enumerators.snapshot(number)}
        self._post_all(self._sources.subtasks, trigger)

    def mark_again(self, unmarked: SettleMarkFailed) -> None:
        """While there is input, a full storage does not block; at the end, waiting for it is limited."""
        if self.ending:
            raise unmarked.error
        self.soon(partial(self._store, partial(self._mark, unmarked.checkpoint)))

    def commit_of(self, group: WorkerGroup) -> None:
        """Ask the systems themselves what a failed region was told to commit and did not answer."""
        for checkpoint, work in list(self.coordinator.unsettled.items())[:1]:
            mine = tuple(committable for committable in work if self._owner(committable) in group.slots)
            self._send_commit(cp.Commit(checkpoint, mine))

    def close(self) -> None:
        """Wait for what the background threads do."""
        # A savepoint reads files that the next attempt may delete.
        self._savepoints.shutdown(wait=True)
        self._storage.shutdown(wait=True)

    def _store(self, work: Callable[[], object]) -> Iterable[cp.Event]:
        def guarded() -> None:
            try:
                event = work()
            except BaseException as error:
                event = BackgroundFailed(end_of("work on the checkpoint storage", error))
            if event is not None:
                self._events.put(event)

        self._storage.submit(guarded)
        return ()

    def _save(self, write: Callable[[], cp.Event]) -> Iterable[cp.Event]:
        self._savepoints.submit(lambda: self._events.put(write()))
        return ()

    def _trigger(self, action: cp.Trigger) -> Iterable[cp.Event]:
        if self._startup.pipeline.record.passes_over(action.checkpoint):
            self.begin(action)
        else:
            self._store(partial(self._writer.number, action))
        return ()

    def _announce(self, action: cp.Announce) -> None:
        self._post_all(set(self._graph.subtasks).difference(self._sources.subtasks), action)

    def _reported(self, reports: Iterable[OperatorReport]) -> None:
        self._sources.enumerators.reported(reports)

    def _decided(self) -> None:
        self._sources.enumerators.decided()

    def _mark(self, checkpoint: CheckpointId) -> cp.Event | None:
        try:
            return super()._mark(checkpoint)
        except UnavailableError as error:
            self._events.put(SettleMarkFailed(checkpoint, error))
            return None

    def _release(self, action: cp.Release) -> None:
        super()._release(action)
        self._copies.forget(action.files)

    def _commit(self, action: cp.Commit) -> Iterable[cp.Event]:
        delay_s = self._retries.delay_s(action.committables)
        if delay_s:
            self.soon(partial(self._send_commit, action), delay_s)
        else:
            self._send_commit(action)
        return ()

    def _send_commit(self, action: cp.Commit) -> None:
        """Have each worker commit what it prepared; what was prepared by one that is gone is committed here."""
        orphaned: list[Committable] = []
        for owner in sorted({self._owner(c) for c in action.committables}):
            mine = tuple(c for c in action.committables if self._owner(c) == owner)
            if self._regions.is_down(self._regions.of(owner)):
                orphaned += mine
            else:
                self._regions.post(owner, cp.Commit(action.checkpoint, mine))
        if orphaned:
            self._store(partial(self._commit_here, action.checkpoint, tuple(orphaned)))

    def _commit_here(self, checkpoint: CheckpointId, orphaned: tuple[Committable, ...]) -> cp.Answered:
        answers: Answers
        try:
            with contextlib.closing(self._startup.committers(self._graph)) as committers:
                answers = committers.commit(orphaned)
        except UnavailableError as error:
            answers = tuple((committable, Retry(str(error))) for committable in orphaned)
        return cp.Answered(checkpoint, answers)

    def _owner(self, committable: Committable) -> Subtask:
        return Subtask(self._vertex_of[committable.uid], committable.subtask)

    def _settled(self, action: cp.Settled) -> None:
        self._post_all(self._graph.subtasks, action)

    def _aborted(self, action: cp.Abort) -> None:
        self._post_all(self._graph.subtasks, action)

    def _post_all(self, subtasks: Iterable[Subtask], message: ToSubtask) -> None:
        for subtask in subtasks:
            self._regions.post(subtask, message)
