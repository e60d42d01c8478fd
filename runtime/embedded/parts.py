"""The parts of an attempt, each with a crew: which have their slots, which run, hang, are down or may come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.errors import TidegateError, UnavailableError
from tidegate.ids import Subtask
from tidegate.runtime.embedded.cluster import Farewell
from tidegate.runtime.embedded.crew import Crew
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule import failover as fo, slot_pool as sp
from tidegate.runtime.schedule.heartbeats import Ask, Heartbeats
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.slots import called

__all__ = ["PartBroken", "PartDue", "Parts"]


@dataclass(frozen=True, slots=True)
class PartBroken:
    """A part cannot go on."""

    crew: Crew
    error: TidegateError


@dataclass(frozen=True, slots=True)
class PartDue:
    """It is time for a part that is down to come back."""

    crew: Crew


class Parts:
    """All crews of an attempt; performs what slots, heartbeats and failover ask for, and says what that leads to."""

    def __init__(
        self, crews: Sequence[Crew], options: JobOptions, strategy: RestartStrategy, clock: Clock
    ) -> None:
        self.crews = crews
        self._of = {subtask: crew for crew in crews for subtask in crew.slots}
        self._clock = clock
        self._waits_ms = options.slot_timeout_ms
        self._pool = sp.SlotPool(options.slot_timeout_ms)
        self._heartbeats = Heartbeats(options.heartbeat_ms, options.heartbeat_timeout_ms)
        self._failover = fo.Failover(strategy)

    @property
    def deployed(self) -> bool:
        """Whether every subtask hears what it is told."""
        return all(crew.deployed for crew in self.crews)

    @property
    def run(self) -> bool:
        """Whether every subtask runs."""
        return all(execution.state == "running" for crew in self.crews for execution in crew.executions)

    def of(self, subtask: Subtask) -> Crew:
        """The crew that runs it."""
        return self._of[subtask]

    def is_down(self, crew: Crew) -> bool:
        """Whether a part has failed and is not started again yet."""
        return crew.number in self._failover.down

    def start(self, crew: Crew, startup: Startup, start: StartPoint) -> None:
        """Have a part run another attempt from where a checkpoint ends; its workers are ready later."""
        for action in self._pool.on(sp.Wanted(crew.number, tuple(crew.slots.values()), self._now_ms)):
            if isinstance(action, sp.Start):
                crew.start(startup, start, action.task_managers)

    def ready(self, worker: int) -> list[Crew]:
        """A worker can be deployed to; the crews that are complete with it, and deployed now."""
        ready = [
            self.crews[action.part]
            for action in self._pool.on(sp.Registered(worker))
            if isinstance(action, sp.Fulfilled)
        ]
        for crew in ready:
            crew.deploy()
            self._heartbeats.watch(*crew.workers)
        return ready

    def answered(self, worker: int) -> None:
        """A worker lives."""
        self._heartbeats.answered(worker)

    def stop(self, crew: Crew) -> bool:
        """A part has failed: end what is left of it; False if it may not come back."""
        actions = self._failover.on(fo.PartFailed(crew.number, self._now_ms))
        for action in actions:
            if isinstance(action, fo.Stop):
                crew.close("at once")
                self._heartbeats.forget(crew.workers)
        return fo.GiveUp() not in actions

    def tick(self, quiet: Callable[[], bool]) -> list[PartBroken | PartDue]:
        """Time goes on; `quiet` is whether nothing of any checkpoint is open."""
        now_ms = self._now_ms
        found: list[PartBroken | PartDue] = []
        for beat in self._heartbeats.tick(now_ms):
            crew = next(crew for crew in self.crews if beat.worker in crew.workers)
            if isinstance(beat, Ask):
                crew.ping(beat.worker)
            else:
                found.append(PartBroken(crew, _hangs(crew, beat.worker, beat.for_ms)))
        waited = self._pool.on(sp.Tick(now_ms))
        found += [
            PartBroken(self.crews[each.part], self._too_few(each))
            for each in waited
            if isinstance(each, sp.Missing)
        ]
        if self._failover.down:
            due = self._failover.on(fo.Tick(now_ms, quiet()))
            found += [PartDue(self.crews[action.part]) for action in due if isinstance(action, fo.Start)]
        return found

    def close(self, how: Farewell) -> None:
        """End everything."""
        for crew in self.crews:
            crew.close(how, "finished" if how == "gracefully" else "canceled")

    def _too_few(self, missing: sp.Missing) -> UnavailableError:
        return UnavailableError(
            f"not enough slots: {missing.needed} needed, {missing.there} there after {self._waits_ms} ms; the processes "
            "of the others did not start in time; see what this machine is doing, or raise slot.request.timeout"
        )

    @property
    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _hangs(crew: Crew, worker: int, for_ms: int) -> UnavailableError:
    ran = crew.ran_by(worker)
    crew.failed(ran)
    return UnavailableError(
        f"{called(worker)} hangs: it has not answered for {for_ms} ms and was killed; it ran "
        f"{', '.join(map(str, ran))}; raise heartbeat.timeout if its functions call native code that keeps all "
        "threads from running for so long"
    )
