"""Restarts of failover regions while the other regions run."""

from __future__ import annotations

import queue

from tidegate.clock import Clock
from tidegate.errors import TidegateError, UnavailableError
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.embedded.cluster import WorkerLost
from tidegate.runtime.embedded.failover_regions import FailoverRegions, RegionDue, RegionFailed
from tidegate.runtime.embedded.performer import WorkerPerformer
from tidegate.runtime.embedded.sources import SourceCoordination
from tidegate.runtime.embedded.worker_group import EventQueue, WorkerGroup, WorkerMessage
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.schedule.restart import RestartStrategy, repeats, worth_restarting
from tidegate.runtime.schedule.slots import task_manager_name
from tidegate.runtime.status import RunStatus
from tidegate.runtime.supervise import restarts_exhausted
from tidegate.runtime.task.messages import Failed

__all__ = ["RegionRestarts"]

_HEARSAY_S = 0.5


class RegionRestarts:
    """Restarts a region that failed, or fails the attempt if the others cannot run without it."""

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        regions: FailoverRegions,
        sources: SourceCoordination,
        performer: WorkerPerformer,
        events: EventQueue,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
    ) -> None:
        self._startup = startup
        self._start = start
        self._regions = regions
        self._sources = sources
        self._performer = performer
        self._events = events
        self._clock = clock
        self._status = status
        self._restart = restart

    def begin(self) -> None:
        """Start all regions."""
        for group in self._regions.worker_groups:
            self._regions.start(group, self._startup, self._start)

    def tick(self) -> None:
        """Check timeouts."""
        for found in self._regions.tick(lambda: self._performer.coordinator.quiet):
            match found:
                case RegionFailed():
                    self.failed(found.group, found.error)
                case RegionDue():
                    self._bring_back(found.group)

    def ready(self, worker: int) -> None:
        """A worker is ready for its deployment."""
        for group in self._regions.ready(worker):
            self._deployed(group)

    def opened(self, group: WorkerGroup, worker: int) -> None:
        """A worker runs its subtasks."""
        group.opened(worker)
        if self._regions.run and self._status.state in ("created", "restarting"):
            self._status.become("running")

    def subtask_failed(self, group: WorkerGroup, failed: Failed) -> None:
        """A subtask has failed, and its worker with it."""
        group.failed([failed.subtask])
        self.failed(group, self._cause(group, failed.error))

    def lost(self, group: WorkerGroup, message: WorkerLost) -> None:
        """A worker is lost."""
        self.failed(group, _lost(group, message))

    def failed(self, group: WorkerGroup, error: TidegateError) -> None:
        """A region has failed: it restarts alone if the others do not depend on it, otherwise all regions restart.

        Raises:
            TidegateError: all regions have to restart, or none may.
        """
        alone = len(self._regions.worker_groups) == 1 or self._performer.ending
        if alone or not worth_restarting(error) or repeats(self._restart, error):
            raise error
        if not self._regions.stop(group):
            raise restarts_exhausted(self._startup.program.name, error) from error
        self._status.become("restarting")
        self._status.note("restart", str(error))
        self._status.part_over(group.workers)
        self._sources.failed(group.slots.keys())
        self._performer.tell(cp.Pause(f"part of the job restarts: {', '.join(map(str, group.slots))}"))
        self._performer.commit_of(group)

    def _deployed(self, group: WorkerGroup) -> None:
        """A region is connected; a restarted one gets its splits again."""
        if group.start_point is not self._start and group.start_point is not None:
            try:
                self._sources.enumerators.reopen(group.vertices, group.start_point.manifest)
            except TidegateError as error:
                self.failed(group, error)
                return
        if self._regions.deployed:
            self._performer.tell(cp.Resume())

    def _bring_back(self, group: WorkerGroup) -> None:
        try:
            self._sources.restarting(group.slots.keys())
            uids = {uid for vertex in group.vertices for uid in vertex.nodes}
            start = self._startup.region_start_point(self._start.graph, uids)
            self._regions.start(group, self._startup, start)
        except TidegateError as error:
            self.failed(group, error)

    def _cause(self, group: WorkerGroup, error: TidegateError) -> TidegateError:
        """A worker often reports a lost connection to another one before the failure or loss of that one is known."""
        if not isinstance(error, UnavailableError):
            return error
        until, others = self._clock.monotonic() + _HEARSAY_S, list[object]()
        try:
            while (patience := until - self._clock.monotonic()) > 0:
                event = self._events.next(patience)
                said = event.message if isinstance(event, WorkerMessage) and group.is_current(event) else None
                if isinstance(said, WorkerLost):
                    return _lost(group, said)
                others.append(event)
                if isinstance(said, Failed) and not isinstance(said.error, UnavailableError):
                    return said.error
        except queue.Empty:
            pass
        finally:
            self._events.requeue(others)
        return error


def _lost(group: WorkerGroup, message: WorkerLost) -> UnavailableError:
    ran = group.ran_by(message.worker)
    group.failed(ran)
    return UnavailableError(
        f"{task_manager_name(message.worker)} ended ({message.how}); it ran {', '.join(map(str, ran))}"
    )
