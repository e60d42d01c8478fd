"""Performer of the coordinator's actions in the Spark driver: a checkpoint is an epoch, and the driver commits.

An epoch is triggered only when everything decided before it is settled, so prepared work that its tasks find in external
systems is undecided and can be removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.errors import UnavailableError
from tidegate.ids import Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.operators.measures import Measured, followed
from tidegate.runtime.performer import ActionPerformer
from tidegate.runtime.requests import StopRequested
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.spark.epochs import Epochs
from tidegate.runtime.spark.id_pool import IdHolds
from tidegate.runtime.spark.leftovers import Leftovers
from tidegate.runtime.spark.pace import Pace
from tidegate.runtime.spark.readers import Readers
from tidegate.runtime.spark.winners import ConflictingExecutions
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task.flow import Flow

__all__ = ["OBSERVE_S", "EpochPerformer"]

OBSERVE_S = 0.2
"""The maximum wait of the driver between two checks for requests."""
_TOLERATED = 2
"""The default of consecutive epochs that may be declined."""


class EpochPerformer(ActionPerformer):
    """Performs actions sequentially, in the driver's thread.

    Args:
        wait: Waits some seconds and handles requests meanwhile.
    """

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        epochs: Epochs,
        readers: Readers,
        pace: Pace,
        holds: IdHolds,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
        wait: Callable[[float], None],
    ) -> None:
        coordinator = startup.coordinator(start.graph, start, interval_ms=0, tolerated=_TOLERATED)
        super().__init__(startup, start, coordinator, clock, status, restart)
        self.stop: StopRequested | None = None
        """The request to make the next epoch the last one."""
        self._epochs = epochs
        self._readers = readers
        self._pace = pace
        self._wait = wait
        self._began_ms = 0
        self._committers = startup.committers(start.graph)
        self._leftovers = Leftovers(startup, self._committers, start.manifest, epochs, holds, clock)
        self._worked: Counter[Subtask] = Counter()
        """The number of records that each subtask has read or received."""
        self._measured: dict[Subtask, Measured] = {}

    @property
    def now_ms(self) -> int:
        """The monotonic clock for waits."""
        return int(self._clock.monotonic() * 1000)

    def remove_last_copies(self) -> None:
        """The job has ended: remove leftovers of speculative copies, which would stay until the next start."""
        self._leftovers.remove_last_copies()

    def close(self) -> None:
        """Close the committers."""
        self._committers.close()

    @property
    def _not_before_ms(self) -> int:
        return self._epochs.epoch_times.recorded_ms

    def _store(self, work: Callable[[], cp.Event | None]) -> Iterable[cp.Event]:
        event = work()
        return () if event is None else (event,)

    def _save(self, write: Callable[[], cp.Event]) -> Iterable[cp.Event]:
        return (write(),)

    def _trigger(self, action: cp.Trigger) -> Iterable[cp.Event]:
        checkpoint = action.checkpoint
        while (wait_s := self._leftovers.wait_s(checkpoint)) > 0:
            self._wait(min(OBSERVE_S, wait_s))
        # Held until all of its executions are known to have ended, even if this attempt fails.
        self._leftovers.hold(checkpoint)
        numbered = self._writer.number(action)
        if not isinstance(numbered, cp.Trigger):
            return [numbered]
        self._status.note("triggered", f"checkpoint {checkpoint}", checkpoint=checkpoint)
        stop = self.stop
        limit = self._startup.program.options.epoch_records if stop is None else 0
        reads = self._readers.orders(
            None if self._graph.batch else limit,
            thorough=self._pace.thorough and stop is None,
            ending=stop is not None and stop.drain,
        )
        self._enumerated = {checkpoint: self._readers.snapshot(checkpoint)}
        self._epochs.epoch_times.next()
        self._began_ms = self.now_ms
        try:
            results = self._epochs.run(action, reads)
        except ConflictingExecutions as conflict:
            return [cp.MetadataFailed(checkpoint, UnavailableError(str(conflict)))]
        # An epoch whose checkpoint could not be made durable runs again, since the storage may answer now.
        declines = [cp.Decline(each.subtask, checkpoint, each.error) for each in results if each.error]
        now_ms = SYSTEM_CLOCK.now_ms()
        return declines or [
            cp.Ack(each.subtask, checkpoint, each.reports, each.decide_by_ms - now_ms) for each in results
        ]

    def _announce(self, action: cp.Announce) -> None:
        """Never requested: there are no in-flight records between epochs."""

    def _reported(self, reports: Iterable[OperatorReport]) -> None:
        self._readers.reported(reports)

    def _decided(self) -> None:
        manifest, results = self._writer.written, self._epochs.results
        assert manifest is not None
        self._leftovers.decided = manifest
        self._epochs.decided(manifest)
        self._readers.advance(results)
        sources = self._epochs.sources
        for number, result in enumerate(sorted(results, key=lambda result: result.subtask)):
            subtask = result.subtask
            self._worked[subtask] += result.records
            done = self._worked[subtask]
            flow = {subtask: Flow("ok", 0.0, 0.0, 0.0, done, result.watermark)}
            measured = followed(self._measured.get(subtask, Measured()), result.measured)
            self._measured[subtask] = measured
            self._status.progress(number, done if subtask in sources else 0, measured, flow)
        self._pace.decided(
            self._began_ms,
            self.now_ms,
            {result.subtask: result.records for result in results if result.subtask in sources},
            {result.subtask for result in results if result.limited},
            [result.wake_ms for result in results if result.wake_ms is not None],
        )

    def _commit(self, action: cp.Commit) -> Iterable[cp.Event]:
        """Commit; retries of commits wait, and no epoch begins meanwhile."""
        until = self._clock.monotonic() + self._retries.delay_s(action.committables)
        while (left_s := until - self._clock.monotonic()) > 0:
            self._wait(min(OBSERVE_S, left_s))
            self.check_refused(ending=self._readers.drained or self.stop is not None or self._pace.over)
        return [cp.Answered(action.checkpoint, self._committers.commit(action.committables))]

    def _settled(self, action: cp.Settled) -> None:
        self._leftovers.remove(action.checkpoint)

    def _aborted(self, action: cp.Abort) -> None:
        self._leftovers.abandon(action.checkpoint)
