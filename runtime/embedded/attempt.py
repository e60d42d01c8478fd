"""One attempt to run a job on a cluster of workers, from its deployment to its end."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from functools import partial

from tidegate.clock import Clock
from tidegate.errors import FencedError, InternalError, JobCancelledError, TidegateError
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.discovery import DiscoveryResult
from tidegate.runtime.embedded.cluster import ShutdownMode, WorkerLost
from tidegate.runtime.embedded.failover_regions import FailoverRegions
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.embedded.messages import Closed, Pong, Ready
from tidegate.runtime.embedded.performer import BackgroundFailed, SettleMarkFailed, WorkerPerformer
from tidegate.runtime.embedded.region_restarts import RegionRestarts
from tidegate.runtime.embedded.sources import SourceCoordination
from tidegate.runtime.embedded.worker_group import EventQueue, WorkerGroup, WorkerMessage
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.requests import CancelRequested, Request, SavepointRequested, StopRequested
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.slots import task_manager_name
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task.messages import (
    Drained,
    Failed,
    Opened,
    Progress,
    SplitsWanted,
    TimeReached,
    ToEnumerator,
)

__all__ = ["Attempt"]

_TICK_S = 0.05


class Attempt:
    """Passes each event to its handlers, in the thread that calls `run`."""

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        worker_groups: Sequence[WorkerGroup],
        events: EventQueue,
        copies: LocalRecovery,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
        observe: Callable[[RunStatus], None],
    ) -> None:
        self._startup = startup
        self._graph = start.graph
        self._events = events
        self._clock = clock
        self._status = status
        self._observe = observe
        self._at_end: tuple[cp.Event, ...] = (cp.Finish("finish"),)
        self._claims = startup.claims(start.graph)
        self._regions = FailoverRegions(worker_groups, startup.program.options, restart, clock)
        self._sources = SourceCoordination(start, status.discovery.looked, events.put, self._regions.post)
        self._performer = WorkerPerformer(
            startup, start, self._regions, self._sources, events, copies, clock, status, restart
        )
        self._restarts = RegionRestarts(
            *(startup, start, self._regions, self._sources, self._performer, events, clock, status, restart)
        )

    def run(self) -> cp.How:
        """Run until the last checkpoint is settled.

        Raises:
            TidegateError: the attempt failed; all its workers have ended.
        """
        with self._startup.lease.told_to(self._lease):
            return self._run()

    def _run(self) -> cp.How:
        shutdown: ShutdownMode = "at once"
        try:
            self._status.attempt_begins()
            self._restarts.begin()
            while self._performer.ended is None:
                self._tick()
                with contextlib.suppress(queue.Empty):
                    self._handle(self._events.next(_TICK_S))
                    while self._performer.ended is None:
                        self._handle(self._events.next(0))
            shutdown = "gracefully"
            return self._performer.ended
        except (KeyboardInterrupt, JobCancelledError):
            shutdown = "impatiently"
            self._status.become("cancelling")
            raise
        except TidegateError as error:
            if not isinstance(error, FencedError):  # otherwise the job does not fail: another owner runs it
                self._status.become("failing")
            raise
        finally:
            self._sources.enumerators.close()
            self._regions.close(shutdown)
            self._count_last_records()
            self._performer.close()
            self._status.attempt_over()

    def _lease(self, lost: TidegateError | None) -> None:
        """Send the state of the lease to the workers; called by the thread that renews it."""
        if lost is not None:
            self._events.put(BackgroundFailed(lost))
        for group in self._regions.worker_groups:
            group.lease(lost if isinstance(lost, FencedError) else None)

    def _tick(self) -> None:
        now_ms = int(self._clock.monotonic() * 1000)
        self._observe(self._status)
        if self._regions.deployed and not (self._graph.batch and self._sources.undrained):
            self._performer.tell(cp.Tick(now_ms))
        self._performer.tick()
        self._restarts.tick()
        self._sources.enumerators.look(now_ms)
        self._claims.tick()

    def _handle(self, event: object) -> None:
        match event:
            case StopRequested() | SavepointRequested() | CancelRequested():
                self._status.note("asked", event.words)
                self._requested(event)
            case DiscoveryResult():
                self._sources.enumerators.take(event)
            case BackgroundFailed():
                raise event.error
            case SettleMarkFailed():
                self._performer.mark_again(event)
            case cp.Trigger():
                self._performer.begin(event)
            case (
                cp.MetadataDurable()
                | cp.MetadataFailed()
                | cp.Swapped()
                | cp.SwapLost()
                | cp.Answered()
                | cp.SettledDurable()
                | cp.SavepointOver()
            ):
                self._performer.tell(event)
            case WorkerMessage():
                if event.group.is_current(event):
                    self._hear_worker(event.group, event.message)
            case _:
                raise InternalError(f"the coordinator received an unknown event {type(event).__name__}")

    def _hear_worker(self, group: WorkerGroup, message: object) -> None:
        match message:
            case cp.Ack() | cp.Decline() | cp.Answered():
                self._performer.tell(message)
            case SplitsWanted() | ToEnumerator() | TimeReached():
                self._sources.on(message)
            case Drained():
                self._sources.on(message)
                if not self._sources.undrained:
                    self._performer.tell(*self._at_end)
            case Progress():
                self._progress(message)
            case Ready():
                self._restarts.ready(message.worker)
            case Opened():
                self._restarts.opened(group, message.worker)
            case Pong():
                self._regions.answered(message.worker)
            case Failed():
                self._status.note("failed", str(message.error), subtask=message.subtask)
                self._restarts.subtask_failed(group, message)
            case WorkerLost():
                self._status.note("lost", f"{task_manager_name(message.worker)} ended ({message.how})")
                self._restarts.lost(group, message)
            case Closed():
                name = task_manager_name(message.worker)
                self._restarts.failed(group, InternalError(f"{name} ended before the job did"))
            case _:
                raise InternalError(f"the coordinator received an unknown message {type(message).__name__}")

    def _requested(self, request: Request) -> None:
        match request:
            case StopRequested():
                self._stop(request)
            case SavepointRequested(order):
                self._performer.take_savepoint(order)
            case CancelRequested():
                raise JobCancelledError(f"job {self._startup.program.name!r} was cancelled")

    def _stop(self, request: StopRequested) -> None:
        if self._performer.checkpoint_obstacle is None and not self._regions.deployed:
            self._performer.soon(partial(self._stop, request))
            return
        if not self._performer.accepts(request):
            return
        self._status.become("stopping")
        wanted = () if request.order is None else (cp.SavepointWanted(request.order.place),)
        self._at_end = (*wanted, cp.Finish("stop"))
        if request.drain and self._sources.undrained:
            self._sources.end_input()
        else:
            self._performer.tell(*self._at_end)

    def _count_last_records(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                match self._events.next(0):
                    case WorkerMessage(message=Progress() as last):
                        self._progress(last)

    def _progress(self, done: Progress) -> None:
        self._status.progress(done.worker, done.read, done.measured, done.flow)
