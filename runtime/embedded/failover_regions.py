"""Failover regions of an attempt, each with a worker group, and their states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.errors import TidegateError, UnavailableError
from tidegate.ids import Subtask
from tidegate.runtime.embedded.cluster import ShutdownMode
from tidegate.runtime.embedded.worker_group import WorkerGroup
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule import failover as fo, slot_pool as sp
from tidegate.runtime.schedule.heartbeats import Ask, Heartbeats
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.slots import task_manager_name
from tidegate.runtime.task.messages import ToSubtask

__all__ = ["FailoverRegions", "RegionDue", "RegionFailed"]


@dataclass(frozen=True, slots=True)
class RegionFailed:
    """A region has failed."""

    group: WorkerGroup
    error: TidegateError


@dataclass(frozen=True, slots=True)
class RegionDue:
    """It is time for a part that is down to come back."""

    group: WorkerGroup


class FailoverRegions:
    """All worker_groups of an attempt; performs what slots, heartbeats and failover ask for, and says what that leads to."""

    def __init__(
        self,
        worker_groups: Sequence[WorkerGroup],
        options: JobOptions,
        strategy: RestartStrategy,
        clock: Clock,
    ) -> None:
        self.worker_groups = worker_groups
        self._of = {subtask: group for group in worker_groups for subtask in group.slots}
        self._clock = clock
        self._waits_ms = options.slot_timeout_ms
        self._pool = sp.SlotPool(options.slot_timeout_ms)
        self._heartbeats = Heartbeats(options.heartbeat_ms, options.heartbeat_timeout_ms)
        self._failover = fo.Failover(strategy)

    @property
    def deployed(self) -> bool:
        """Whether every subtask receives messages."""
        return all(group.deployed for group in self.worker_groups)

    @property
    def run(self) -> bool:
        """Whether every subtask runs."""
        return all(
            execution.state == "running" for group in self.worker_groups for execution in group.executions
        )

    def of(self, subtask: Subtask) -> WorkerGroup:
        """The group that runs it."""
        return self._of[subtask]

    def post(self, subtask: Subtask, message: ToSubtask) -> None:
        """Send a message to a subtask; lost if its worker is not there, or not deployed yet."""
        self._of[subtask].post(subtask, message)

    def is_down(self, group: WorkerGroup) -> bool:
        """Whether a part has failed and is not started again yet."""
        return group.number in self._failover.down

    def start(self, group: WorkerGroup, startup: Startup, start: StartPoint) -> None:
        """Have a part run another attempt from where a checkpoint ends; its workers are ready later."""
        for action in self._pool.on(sp.Wanted(group.number, tuple(group.slots.values()), self._now_ms)):
            if isinstance(action, sp.Start):
                group.start(startup, start, action.task_managers)

    def ready(self, worker: int) -> list[WorkerGroup]:
        """A worker can be deployed to; the worker_groups that are complete with it, and deployed now."""
        ready = [
            self.worker_groups[action.part]
            for action in self._pool.on(sp.Registered(worker))
            if isinstance(action, sp.Fulfilled)
        ]
        for group in ready:
            group.deploy()
            self._heartbeats.watch(*group.workers)
        return ready

    def answered(self, worker: int) -> None:
        """A worker lives."""
        self._heartbeats.answered(worker)

    def stop(self, group: WorkerGroup) -> bool:
        """A part has failed: end what is left of it; False if it may not come back."""
        actions = self._failover.on(fo.PartFailed(group.number, self._now_ms))
        for action in actions:
            if isinstance(action, fo.Stop):
                group.close("at once")
                self._heartbeats.forget(group.workers)
        return fo.GiveUp() not in actions

    def tick(self, quiet: Callable[[], bool]) -> list[RegionFailed | RegionDue]:
        """Time has advanced; `quiet` is whether no checkpoint is pending."""
        now_ms = self._now_ms
        found: list[RegionFailed | RegionDue] = []
        for beat in self._heartbeats.tick(now_ms):
            group = next(group for group in self.worker_groups if beat.worker in group.workers)
            if isinstance(beat, Ask):
                group.ping(beat.worker)
            else:
                found.append(RegionFailed(group, _hangs(group, beat.worker, beat.for_ms)))
        waited = self._pool.on(sp.Tick(now_ms))
        found += [
            RegionFailed(self.worker_groups[each.part], self._not_enough_slots(each))
            for each in waited
            if isinstance(each, sp.Missing)
        ]
        if self._failover.down:
            due = self._failover.on(fo.Tick(now_ms, quiet()))
            found += [
                RegionDue(self.worker_groups[action.part]) for action in due if isinstance(action, fo.Start)
            ]
        return found

    def close(self, how: ShutdownMode) -> None:
        """End everything."""
        for group in self.worker_groups:
            group.close(how, "finished" if how == "gracefully" else "canceled")

    def _not_enough_slots(self, missing: sp.Missing) -> UnavailableError:
        return UnavailableError(
            f"not enough slots: {missing.needed} needed, got {missing.there} after {self._waits_ms} ms; the other "
            "processes did not start in time; check the load of this machine, or raise slot.request.timeout"
        )

    @property
    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _hangs(group: WorkerGroup, worker: int, for_ms: int) -> UnavailableError:
    ran = group.ran_by(worker)
    group.failed(ran)
    return UnavailableError(
        f"{task_manager_name(worker)} hangs: it has not answered for {for_ms} ms and was killed; it ran "
        f"{', '.join(map(str, ran))}; raise heartbeat.timeout if its functions call native code that blocks all "
        "threads for that long"
    )
