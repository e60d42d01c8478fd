"""Performer of the checkpoint coordinator's actions in one attempt: what all executors have in common."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tidegate.clock import Clock
from tidegate.errors import JobCancelledError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.checkpoint.orders import SavepointOrder, SavepointOrders
from tidegate.runtime.checkpoint.retries import CommitRetries, given_up
from tidegate.runtime.checkpoint.writer import CheckpointWriter
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.observe.checkpoints import by_sink
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.requests import StopRequested
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.status import RunStatus, log_commit_answers

__all__ = ["ActionPerformer"]


class ActionPerformer(ABC):
    """Tells the coordinator of events and performs its actions, all in the thread that calls `tell`.

    A subclass adds where the work is done: who takes part in a checkpoint, who commits, which thread waits for the storage.
    """

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        coordinator: CheckpointCoordinator,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
    ) -> None:
        self.coordinator = coordinator
        self.ended: cp.How | None = None
        """How the job has ended; None while it runs."""
        self._startup = startup
        self._start = start
        self._graph = start.graph
        self._clock = clock
        self._status = status
        self._restart = restart
        self._orders = SavepointOrders(startup)
        self._writer = CheckpointWriter(
            startup.pipeline, start.graph, clock, startup.committers(start.graph).finish
        )
        self._retries = CommitRetries(startup.program.options.timeout_ms / 1000)
        self._enumerated: dict[CheckpointId, Mapping[OperatorUid, bytes]] = {}
        """What the enumerators hold in the checkpoint that began last."""

    def tell(self, *events: cp.Event) -> bool:
        """Perform what the coordinator asks for after these events, and after what comes of that; False if that is nothing."""
        busy = False
        for event in events:
            todo = deque(self._take(event))
            busy = busy or bool(todo)
            while todo:
                for following in self._perform(todo.popleft()):
                    todo.extend(self._take(following))
        return busy

    @property
    def checkpoint_obstacle(self) -> str | None:
        """Why no checkpoint can be taken now."""
        decided = self.coordinator.confirmed != self._start.checkpoint
        return self._startup.program.checkpoint_obstacle(self._graph, decided=decided)

    def take_savepoint(self, order: SavepointOrder) -> None:
        """Have the next checkpoint become a savepoint; an order that cannot be fulfilled is told why."""
        if self._orders.accept(order, self.checkpoint_obstacle):
            self.tell(cp.SavepointWanted(order.place))

    def accepts(self, stop: StopRequested) -> bool:
        """Whether the job can end with a last checkpoint.

        Raises:
            JobCancelledError: it cannot, and no savepoint was ordered.
        """
        refusal = self.checkpoint_obstacle
        if stop.order is not None:
            return self._orders.accept(stop.order, refusal)
        if refusal is not None:
            raise JobCancelledError(f"{refusal}; the job was cancelled; the next start has no state")
        return True

    def check_refused(self, *, ending: bool) -> None:
        """Look whether commits are refused for too long at the end of the job.

        Raises:
            CommitFailedError: they are; nothing else is left to do.
        """
        if self._retries.overdue(self._clock.monotonic(), ending=ending):
            refused = self.coordinator.refused
            raise given_up(refused, refused, self._retries.patience_s)

    def _take(self, event: cp.Event) -> list[cp.Action]:
        match event:
            case cp.Ack(subtask, number):
                self._status.note("acked", f"checkpoint {number}", checkpoint=number, subtask=subtask)
            case cp.Decline(subtask, number, error):
                why = f"checkpoint {number}: {error}"
                self._status.note("declined", why, checkpoint=number, subtask=subtask)
            case cp.Swapped(number):
                self._restart.progressed()
                self._status.decided(number, *self._writer.weight)
                self._decided()
        actions = self.coordinator.on(event)
        if isinstance(event, cp.Answered):
            left = self.coordinator.left(event.checkpoint)
            mine = by_sink(each for each in left if each.checkpoint == event.checkpoint)
            news = self._retries.answered(event.answers, self._clock.monotonic())
            log_commit_answers(self._status, event, mine, news)
        return actions

    def _perform(self, action: cp.Action) -> Iterable[cp.Event]:
        """Perform an action; what has come of it, if that is known at once."""
        match action:
            case cp.Trigger():
                return self._trigger(action)
            case cp.Announce():
                self._announce(action)
            case cp.WriteMetadata():
                self._reported(action.reports)
                return self._store(partial(self._write, action))
            case cp.SwapLatest(number):
                return self._store(partial(self._writer.decide, number))
            case cp.Commit():
                return self._commit(action)
            case cp.Settle(number):
                return self._store(partial(self._mark, number))
            case cp.Settled(number):
                self._status.settled(number)
                self._settled(action)
            case cp.Release():
                return self._store(partial(self._release, action))
            case cp.WriteSavepoint():
                return self._save(partial(self._orders.write, action))
            case cp.SavepointFailed():
                self._orders.fail(action)
            case cp.Abort(number, reason):
                self._status.note("aborted", f"checkpoint {number}: {reason}", checkpoint=number)
                self._aborted(action)
            case cp.EndJob(how):
                self.ended = how
            case cp.FailJob(error):
                raise error
        return ()

    def _write(self, action: cp.WriteMetadata) -> cp.Event:
        """Make the metadata durable; may block."""
        return self._writer.write(action, self._enumerated[action.checkpoint], self._not_before_ms)

    def _mark(self, checkpoint: CheckpointId) -> cp.Event | None:
        """Write down that all output of a checkpoint is visible; may block."""
        return self._writer.mark(checkpoint)

    def _release(self, action: cp.Release) -> None:
        """Delete what no checkpoint needs; may block. What is left goes with the next release."""
        with contextlib.suppress(UnavailableError):
            self._startup.pipeline.release(action)

    @property
    def _not_before_ms(self) -> int:
        """The earliest time that the metadata may name as its own."""
        return 0

    @abstractmethod
    def _store(self, work: Callable[[], cp.Event | None]) -> Iterable[cp.Event]:
        """Do something that may block on the storage: one after the other, in the order of these calls."""

    @abstractmethod
    def _save(self, write: Callable[[], cp.Event]) -> Iterable[cp.Event]:
        """Write a savepoint."""

    @abstractmethod
    def _trigger(self, action: cp.Trigger) -> Iterable[cp.Event]:
        """Make sure that no other checkpoint has its number, then begin a checkpoint."""

    @abstractmethod
    def _announce(self, action: cp.Announce) -> None:
        """Let the pending checkpoint overtake records."""

    @abstractmethod
    def _reported(self, reports: Iterable[OperatorReport]) -> None:
        """Check that each split is in one place."""

    @abstractmethod
    def _decided(self) -> None:
        """The checkpoint of the last metadata is decided."""

    @abstractmethod
    def _commit(self, action: cp.Commit) -> Iterable[cp.Event]:
        """Have decided work made visible; work that was refused waits."""

    @abstractmethod
    def _settled(self, action: cp.Settled) -> None:
        """All output up to a checkpoint is visible."""

    @abstractmethod
    def _aborted(self, action: cp.Abort) -> None:
        """A checkpoint was given up."""
