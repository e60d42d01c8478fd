"""One attempt to run a program on Spark: performs what the checkpoint coordinator decides, epoch after epoch.

An epoch is triggered only when everything decided before it is settled, so whatever its tasks find prepared outside
belongs to nobody.
"""

from __future__ import annotations

import contextlib
import queue
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pyspark import SparkContext

from tidegate.clock import SYSTEM_CLOCK, Clock, new_id
from tidegate.errors import InternalError, JobCancelledError, TidegateError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.checkpoint.protocol import How
from tidegate.runtime.checkpoint.restore import redistribute
from tidegate.runtime.checkpoint.retries import CommitRetries, given_up
from tidegate.runtime.checkpoint.writer import CheckpointWriter
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.observe.checkpoints import by_sink
from tidegate.runtime.operators.measures import Measured, followed
from tidegate.runtime.options import JobOptions
from tidegate.runtime.requests import CancelRequested, Request, SavepointRequested, StopRequested
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.slots import memory_of_task
from tidegate.runtime.shipping import pack_main_classes, pack_vertices
from tidegate.runtime.spark.clock import Moments
from tidegate.runtime.spark.files import SentFiles
from tidegate.runtime.spark.jobs import EpochJobs
from tidegate.runtime.spark.messages import Order, TaskResult
from tidegate.runtime.spark.pace import Pace
from tidegate.runtime.spark.readers import Readers
from tidegate.runtime.spark.restore_routing import with_starts
from tidegate.runtime.spark.shape import shape_of
from tidegate.runtime.spark.slots import SlotHolds, Slots
from tidegate.runtime.spark.winners import Disagreement, undisputed, winners
from tidegate.runtime.status import RunStatus, log_commit_answers
from tidegate.runtime.task.flow import Flow
from tidegate.twophase.spi import Retry

__all__ = ["SparkAttempt"]

_OBSERVE_S = 0.2
_TOLERATED = 2
"""Epochs in a row that may come to nothing, unless the program says otherwise."""


class SparkAttempt:
    """Coordinates; user functions and readers run in tasks alone."""

    _stop: StopRequested | None = None
    _ended: How | None = None
    _last_execution: int | None = None
    _began_ms = 0
    _lost: TidegateError | None = None
    """Why the lease is lost, if it is."""

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        context: SparkContext,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
        observe: Callable[[RunStatus], None],
        heard: queue.SimpleQueue[Request],
        holds: SlotHolds,
    ) -> None:
        self._holds = holds
        self._startup = startup
        self._graph = start.graph
        self._clock = clock
        self._status = status
        self._restart = restart
        self._observe = observe
        self._heard = heard
        self._orders: dict[str, SavepointOrder] = {}
        self._shape = shape_of(start.graph)
        self._vertices, self._main_classes = pack_vertices(start.graph.vertices.values()), pack_main_classes()
        self._attempt = new_id(8)
        self._coordinator: CheckpointCoordinator = startup.coordinator(
            start.graph, start, interval_ms=0, tolerated=_TOLERATED
        )
        self._writer = CheckpointWriter(
            startup.pipeline, start.graph, clock, startup.committers(start.graph).finish
        )
        self._committers = startup.committers(start.graph)
        self._claims = startup.claims(start.graph)
        self._readers = Readers(start.graph, start.manifest, clock, status.discovery.looked)
        patience_ms = None if start.graph.batch else startup.program.options.timeout_ms
        self._jobs = EpochJobs(context, clock, patience_ms, self._meanwhile)
        self._restored, self._confirmed = start.restored, start.checkpoint
        self._decided = start.manifest
        self._moments = Moments(clock, startup.program.options.resources.clock, start.manifest)
        self._title = _title(startup.program.name, start.graph)
        self._enumerated: dict[OperatorUid, bytes] = {}
        self._results: list[TaskResult] = []
        self._sources = self._shape.sources
        self._worked: Counter[Subtask] = Counter()
        """Records that each subtask has read or received."""
        self._measured: dict[Subtask, Measured] = {}
        self._retries = CommitRetries(startup.program.options.timeout_ms / 1000)
        self._pace = Pace(startup.program.options.spark_trigger, startup.program.interval_ms(start.graph))
        self._former_gone_at: float | None = clock.monotonic() + startup.program.options.lease_ms / 1000
        """When tasks of the owner before this one have stopped; None once they were cleaned up after."""
        self._files = SentFiles(context, startup.program.options.resources.files)

    def run(self) -> How:
        """Run until the last checkpoint is settled.

        Raises:
            TidegateError: the attempt failed; what its tasks still do will never count.
        """
        with self._startup.lease.told_to(self._lease):
            return self._run()

    def _run(self) -> How:
        self._status.attempt_begins()
        self._status.become("running")
        try:
            while self._ended is None:
                self._wait_for_input()
                self._perform(self._next())
            return self._ended
        except JobCancelledError:
            self._status.become("cancelling")
            raise
        except TidegateError:
            raise
        except Exception as error:  # whatever a connector raises that works in the driver
            raise InternalError(f"{type(error).__name__}: {error}") from error
        finally:
            self._readers.close()
            self._committers.close()
            self._jobs.close()
            self._files.close()
            self._status.attempt_over()

    def _lease(self, lost: TidegateError | None) -> None:
        """Remember why the lease is lost, for the thread that coordinates."""
        self._lost = lost

    def _wait_for_input(self) -> None:
        """Let time pass until the next epoch is due; what is asked meanwhile may be a reason for one."""
        self._meanwhile()
        while (left_ms := self._pace.next_ms - self._now_ms) > 0:
            if self._readers.drained or self._stop is not None or self._coordinator.hurried:
                return
            self._meanwhile(min(_OBSERVE_S, left_ms / 1000))

    def _meanwhile(self, timeout_s: float = 0) -> None:
        """Show how it goes, and hear what is asked; also called while an epoch runs.

        Raises:
            ConfigError: another pipeline claims what a sink writes to.
            FencedError: the pipeline has a newer owner.
            JobCancelledError: nothing more shall be done.
        """
        if self._lost is not None:
            raise self._lost
        self._observe(self._status)
        self._claims.tick()
        with contextlib.suppress(queue.Empty):
            self._hear(self._heard.get(timeout_s > 0, timeout_s))

    def _hear(self, request: Request) -> None:
        self._status.note("asked", request.words)
        match request:
            case StopRequested(order):
                self._take_stop(request, order)
            case SavepointRequested(order):
                if (refusal := self._takes_no_checkpoint()) is not None:
                    order.fail(refusal)
                else:
                    self._take_on(order)
            case CancelRequested():
                raise JobCancelledError(f"job {self._startup.program.name!r} was cancelled")

    def _take_stop(self, request: StopRequested, order: SavepointOrder | None) -> None:
        refusal = self._takes_no_checkpoint()
        if refusal is None:
            self._stop = request
            if order is not None:
                self._take_on(order)
        elif order is not None:
            order.fail(refusal)
        else:
            raise JobCancelledError(f"{refusal}; the job was cancelled; the next start has no state")

    def _takes_no_checkpoint(self) -> str | None:
        decided = self._coordinator.confirmed != self._confirmed
        return self._startup.program.takes_no_checkpoint(self._graph, decided=decided)

    def _take_on(self, order: SavepointOrder) -> None:
        self._orders[order.place] = order
        self._perform(self._coordinator.on(cp.SavepointWanted(order.place)))

    def _next(self) -> list[cp.Action]:
        ends = self._graph.batch or self._readers.drained
        last: How | None = "finish" if ends else "stop" if self._pace.over else None
        if self._stop is not None and not self._graph.batch:
            last = "stop"
        if last == "stop":
            self._status.become("stopping")
        actions = self._coordinator.on(cp.Finish(last)) if last is not None else []
        return actions or self._coordinator.on(cp.Tick(self._now_ms))

    def _perform(self, actions: list[cp.Action]) -> None:
        todo = deque(actions)
        while todo:
            for event in self._do(todo.popleft()):
                todo.extend(self._coordinator.on(event))

    def _do(self, action: cp.Action) -> list[cp.Event]:
        match action:
            case cp.Trigger():
                return self._epoch(action)
            case cp.WriteMetadata():
                self._readers.reported(action.reports)
                return [self._writer.write(action, self._enumerated, self._moments.recorded_ms)]
            case cp.SwapLatest():
                return [self._decide(action.checkpoint)]
            case cp.Commit():
                return [self._commit(action)]
            case cp.Settle():
                return [self._writer.mark(action.checkpoint)]
            case cp.Settled():
                self._status.settled(action.checkpoint)
                self._remove_losers(action.checkpoint)
            case cp.Release():
                # What is left goes with the next release: a storage that is away meanwhile ends nobody.
                with contextlib.suppress(UnavailableError):
                    self._startup.pipeline.release(action)
            case cp.WriteSavepoint():
                self._orders[action.place].write(self._startup, action.checkpoint)
                return [cp.SavepointOver(action.place)]
            case cp.SavepointFailed():
                self._orders.pop(action.place).fail(action.reason)
            case cp.Abort():
                self._abort(action)
            case cp.EndJob():
                self._end(action.how)
            case cp.FailJob():
                raise action.error
        return []

    def _epoch(self, trigger: cp.Trigger) -> list[cp.Event]:
        checkpoint = trigger.checkpoint
        while (wait_s := self._holds.wait_s(checkpoint, self._clock.monotonic())) > 0:
            self._meanwhile(min(_OBSERVE_S, wait_s))
        # Until all of its executions are known to have ended, whatever becomes of this attempt.
        self._holds.hold(checkpoint, self._clock.monotonic())
        numbered = self._writer.number(trigger)
        if not isinstance(numbered, cp.Trigger):
            return [numbered]
        self._status.note("triggered", f"checkpoint {checkpoint}", checkpoint=checkpoint)
        stop = self._stop
        limit = self._startup.program.options.epoch_records if stop is None else 0
        reads = self._readers.orders(
            None if self._graph.batch else limit,
            thorough=self._pace.thorough and stop is None,
            ending=stop is not None and stop.drain,
        )
        self._enumerated = self._readers.snapshot(checkpoint)
        self._moments.next()
        self._began_ms = self._now_ms
        reads = with_starts(self._shape, self._restored, reads)
        outcomes = self._jobs.run(self._order(trigger), reads, self._title)
        try:
            self._results = winners(self._shape, outcomes)
        except Disagreement as disagreement:
            error = UnavailableError(str(disagreement))
            return [cp.Decline(outcomes[0].result.subtask, checkpoint, error)]
        for result in self._results:
            if result.error is not None and not result.declined:
                raise result.error
        return self._declines(checkpoint) or self._acks(checkpoint)

    def _declines(self, checkpoint: CheckpointId) -> list[cp.Event]:
        """Whose part of the checkpoint could not be made durable; the epoch runs again then, as it may be now."""
        declines: list[cp.Event] = []
        for result in self._results:
            if result.error is not None:
                self._note("declined", checkpoint, result.subtask, f": {result.error}")
                declines.append(cp.Decline(result.subtask, checkpoint, result.error))
        return declines

    def _acks(self, checkpoint: CheckpointId) -> list[cp.Event]:
        for result in self._results:
            self._note("acked", checkpoint, result.subtask)
        now_ms = SYSTEM_CLOCK.now_ms()
        return [
            cp.Ack(result.subtask, checkpoint, result.reports, result.decide_by_ms - now_ms)
            for result in self._results
        ]

    def _note(
        self, what: Literal["acked", "declined"], checkpoint: CheckpointId, subtask: Subtask, why: str = ""
    ) -> None:
        self._status.note(what, f"checkpoint {checkpoint}{why}", checkpoint=checkpoint, subtask=subtask)

    def _order(self, trigger: cp.Trigger) -> Order:
        startup, record = self._startup, self._startup.pipeline.record
        return Order(
            shape=self._shape,
            vertices=self._vertices,
            main_classes=self._main_classes,
            checkpoint=trigger.checkpoint,
            confirmed=trigger.confirmed,
            since=None if self._jobs.moves_outputs else self._last_execution,
            now_ms=self._moments.now_ms,
            since_ms=self._moments.since_ms,
            pipeline=startup.pipeline.id,
            lineage=record.lineage,
            branch=record.branch,
            term=record.lease.term,
            run=startup.run,
            attempt=self._attempt,
            storage=startup.storage,
            backend=startup.backend,
            options=self._options(),
            path=tuple(entry or str(Path.cwd()) for entry in sys.path),
            batch=self._graph.batch,
        )

    def _options(self) -> JobOptions:
        """What tasks see of the options: their part of an executor's memory, files that were sent, and no clock.

        One that the program gives is looked at here alone; what tasks see of it is the time of the epoch.
        """
        options = self._startup.program.options
        memory = memory_of_task(options.managed_bytes, self._jobs.at_once)
        given = replace(options.resources, files=self._files.sent, clock=None)
        return replace(options, managed_bytes=memory, resources=given)

    def _decide(self, checkpoint: CheckpointId) -> cp.Event:
        event = self._writer.decide(checkpoint)
        if isinstance(event, cp.Swapped) and self._writer.written is not None:
            self._restart.progressed()
            self._status.decided(checkpoint, *self._writer.weight)
            self._decided = self._writer.written
            self._restored = redistribute(self._graph, self._decided, onward=True)
            self._readers.advance(self._results)
            self._count()
        return event

    def _count(self) -> None:
        """Put what the winning tasks have done on the record, and find out when there is more to do."""
        sources = set(self._sources)
        for number, result in enumerate(sorted(self._results, key=lambda result: result.subtask)):
            subtask = result.subtask
            self._worked[subtask] += result.records
            done = self._worked[subtask]
            flow = {subtask: Flow("ok", 0.0, 0.0, 0.0, done, result.watermark)}
            measured = followed(self._measured.get(subtask, Measured()), result.measured)
            self._measured[subtask] = measured
            self._status.progress(number, done if subtask in sources else 0, measured, flow)
        self._pace.decided(
            self._began_ms,
            self._now_ms,
            {result.subtask: result.records for result in self._results if result.subtask in sources},
            {result.subtask for result in self._results if result.limited},
            [result.wake_ms for result in self._results if result.wake_ms is not None],
        )

    @property
    def _now_ms(self) -> int:
        """What waiting is measured by: no wall clock that may be set."""
        return int(self._clock.monotonic() * 1000)

    def _commit(self, action: cp.Commit) -> cp.Event:
        self._await_retry(self._retries.delay_s(action.committables))
        answered = cp.Answered(action.checkpoint, self._committers.commit(action.committables))
        left = by_sink(each for each, answer in answered.answers if isinstance(answer, Retry))
        news = self._retries.answered(answered.answers, self._clock.monotonic())
        log_commit_answers(self._status, answered, left, news)
        return answered

    def _await_retry(self, delay_s: float) -> None:
        """Let time pass before work is committed again; no epoch begins meanwhile, but what is asked is heard.

        Raises:
            CommitFailedError: it was refused for too long, and nothing else is left to do.
        """
        until = self._clock.monotonic() + delay_s
        while (left_s := until - self._clock.monotonic()) > 0:
            self._meanwhile(min(_OBSERVE_S, left_s))
            ending = self._readers.drained or self._stop is not None or self._pace.over
            if self._retries.overdue(self._clock.monotonic(), ending=ending):
                refused = self._coordinator.refused
                raise given_up(refused, refused, self._retries.patience_s)

    def _remove_losers(self, checkpoint: CheckpointId) -> None:
        """Take away what executions that do not count have prepared: all that is visible has been committed by now."""
        if undisputed(self._results, self._last_execution):
            self._holds.free(checkpoint)
            if self._jobs.copied or self._former_are_gone():
                self._abandon(checkpoint)
        else:
            self._abandon(checkpoint)
            self._holds.hold(checkpoint, self._clock.monotonic())
        self._last_execution = max((result.task for result in self._results), default=None)

    def _former_are_gone(self) -> bool:
        """Whether the time has come, once, when what a former owner's tasks have begun late is all there will be."""
        if self._former_gone_at is None or self._clock.monotonic() < self._former_gone_at:
            return False
        self._former_gone_at = None
        return True

    def _end(self, how: How) -> None:
        """End the attempt; what a copy that has lost begins later, nobody would remove before the next start."""
        if self._jobs.copied:
            self._jobs.await_losers()
            self._committers.abort(self._decided)
        self._ended = how

    def _abort(self, action: cp.Abort) -> None:
        self._status.note(
            "aborted", f"checkpoint {action.checkpoint}: {action.reason}", checkpoint=action.checkpoint
        )
        self._abandon(action.checkpoint)

    def _abandon(self, checkpoint: CheckpointId) -> None:
        """Remove what the epoch's executions have prepared and is not decided, and what they have claimed."""
        self._committers.abort(self._decided)
        Slots(self._startup.storage, self._startup.run, checkpoint).clear()


def _title(name: str, graph: JobGraph) -> str:
    """What the program is called and does, by uid; exchanges are bars."""
    chains = (", ".join(vertex.nodes) for vertex in graph.vertices.values())
    return f"{name}: {' | '.join(chains)}"
