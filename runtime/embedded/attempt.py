"""One attempt to run a job on a cluster of workers: performs the actions of the checkpoint coordinator."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tidegate.clock import Clock
from tidegate.errors import FencedError, InternalError, JobCancelledError, TidegateError, UnavailableError
from tidegate.failures import end_of
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.checkpoint.protocol import How
from tidegate.runtime.checkpoint.retries import CommitRetries, given_up
from tidegate.runtime.checkpoint.writer import CheckpointWriter
from tidegate.runtime.discovery import Found
from tidegate.runtime.embedded.cluster import ShutdownMode, WorkerLost
from tidegate.runtime.embedded.coordinator_events import BackgroundFailed, SettleMarkFailed
from tidegate.runtime.embedded.failover_regions import FailoverRegions, RegionDue, RegionFailed
from tidegate.runtime.embedded.handshake import Closed, Pong, Ready
from tidegate.runtime.embedded.job_events import log_event
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.embedded.worker_group import EventQueue, WorkerGroup, WorkerMessage
from tidegate.runtime.enumerators import Enumerators
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.observe.checkpoints import by_sink
from tidegate.runtime.requests import CancelRequested, SavepointRequested, StopRequested
from tidegate.runtime.schedule.restart import RestartStrategy, repeats, worth_restarting
from tidegate.runtime.schedule.slots import task_manager_name
from tidegate.runtime.status import RunStatus, log_commit_answers
from tidegate.runtime.supervise import used_up
from tidegate.runtime.task import messages
from tidegate.runtime.task.drift import Drift
from tidegate.twophase.spi import Committable, Retry

__all__ = ["Attempt", "How"]

_TICK_S = 0.05
_RETRY_S = 0.5
_HEARSAY_S = 0.5


class Attempt:
    """Deploys, coordinates, ends. Everything but storage access happens in the thread that calls `run`."""

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        worker_groups: Sequence[WorkerGroup],
        heard: EventQueue,
        copies: LocalRecovery,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
        observe: Callable[[RunStatus], None],
    ) -> None:
        self._startup = startup
        self._start = start
        self._graph = start.graph
        self._parts = FailoverRegions(worker_groups, startup.program.options, restart, clock)
        self._events = heard
        self._clock = clock
        self._status = status
        self._restart = restart
        self._observe = observe
        self._copies = copies
        self._vertex_of = {uid: v.id for v in start.graph.vertices.values() for uid in v.nodes}
        self._coordinator = startup.coordinator(start.graph, start)
        self._writer = CheckpointWriter(
            startup.pipeline, start.graph, clock, startup.committers(start.graph).finish
        )
        self._storage = ThreadPoolExecutor(1, thread_name_prefix="tidegate-storage")
        self._savepoints = ThreadPoolExecutor(1, thread_name_prefix="tidegate-savepoint")
        self._orders: dict[str, SavepointOrder] = {}
        self._at_end: tuple[cp.Event, ...] = (cp.Finish("finish"),)
        looked = status.discovery.looked
        self._enumerators = Enumerators(
            start.graph, start.manifest, self._assign, looked, heard.put, self._send, start.ended
        )
        self._enumerated: dict[CheckpointId, dict[OperatorUid, bytes]] = {}
        self._sources = [s for v in start.graph.vertices.values() if v.is_source for s in v.subtasks]
        self._undrained = set(self._sources)
        self._drift = Drift.of(start.graph.vertices.values())
        self._retries = CommitRetries(startup.program.options.timeout_ms / 1000)
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._claims = startup.claims(start.graph)
        self._ended: How | None = None

    def run(self) -> How:
        """Run until the last checkpoint is settled.

        Raises:
            TidegateError: the attempt failed; nothing of it is left running.
        """
        with self._startup.lease.told_to(self._lease):
            return self._run()

    def _run(self) -> How:
        shutdown: ShutdownMode = "at once"
        try:
            self._status.attempt_begins()
            for group in self._parts.worker_groups:
                self._parts.start(group, self._startup, self._start)
            while self._ended is None:
                self._tick()
                try:
                    self._hear(self._events.next(_TICK_S))
                    while self._ended is None:
                        self._hear(self._events.next(0))
                except queue.Empty:
                    pass
            shutdown = "gracefully"
            return self._ended
        except (KeyboardInterrupt, JobCancelledError):
            shutdown = "impatiently"
            self._status.become("cancelling")
            raise
        except TidegateError as error:
            if not isinstance(error, FencedError):  # else the job does not fail: another owner runs it
                self._status.become("failing")
            raise
        finally:
            self._enumerators.close()
            self._parts.close(shutdown)
            self._count_last_records()
            # A savepoint reads files that the next attempt may delete.
            self._savepoints.shutdown(wait=True)
            self._storage.shutdown(wait=True)
            self._status.attempt_over()

    def _lease(self, lost: TidegateError | None) -> None:
        """Hand on to the workers how the lease is; called by the thread that renews it, whatever this one waits for."""
        if lost is not None:
            self._events.put(BackgroundFailed(lost))
        for group in self._parts.worker_groups:
            group.lease(lost if isinstance(lost, FencedError) else None)

    def _tick(self) -> None:
        now = self._clock.monotonic()
        self._observe(self._status)
        if self._parts.deployed and not (self._graph.batch and self._undrained):
            self._tell(cp.Tick(int(now * 1000)))
        if self._retries.overdue(now, ending=self._ending):
            refused = self._coordinator.refused
            raise given_up(refused, refused, self._retries.patience_s)
        due = [work for at, work in self._later if at <= now]
        self._later = [(at, work) for at, work in self._later if at > now]
        for work in due:
            work()
        for found in self._parts.tick(lambda: self._coordinator.quiet):
            match found:
                case RegionFailed():
                    self._fail(found.group, found.error)
                case RegionDue():
                    self._bring_back(found.group)
        self._enumerators.look(int(now * 1000))
        self._claims.tick()

    def _hear(self, message: object) -> None:
        log_event(self._status, message)
        match message:
            case StopRequested():
                self._stop(message)
            case SavepointRequested():
                self._savepoint(message.order)
            case CancelRequested():
                raise JobCancelledError(f"job {self._startup.program.name!r} was cancelled")
            case SettleMarkFailed():
                self._mark_again(message)
            case Found():
                self._enumerators.take(message)
            case BackgroundFailed():
                raise message.error
            case cp.Trigger():
                self._trigger(message)
            case cp.Swapped():
                self._restart.progressed()
                self._enumerators.decided()
                self._status.decided(message.checkpoint, *self._writer.weight)
                self._tell(message)
            case (
                cp.MetadataDurable()
                | cp.MetadataFailed()
                | cp.SwapLost()
                | cp.SettledDurable()
                | cp.SavepointOver()
            ):
                self._tell(message)
            case cp.Answered():
                self._answered(message)
            case WorkerMessage():
                if message.group.is_current(message):
                    self._hear_worker(message.group, message.message)
            case _:
                raise InternalError(f"the coordinator received an unknown event {type(message).__name__}")

    def _hear_worker(self, group: WorkerGroup, message: object) -> None:
        log_event(self._status, message)
        match message:
            case cp.Ack() | cp.Decline():
                self._tell(message)
            case cp.Answered():
                self._answered(message)
            case messages.Opened():
                self._opened(group, message.worker)
            case messages.SplitsWanted():
                self._enumerators.request(message.uid, message.reader, message.received)
            case messages.ToEnumerator():
                self._enumerators.reader_event(message.uid, message.reader, message.event)
            case messages.TimeReached():
                for each in self._drift.on(message):
                    self._post(each.subtask, messages.ReadUntil(each.limit))
            case messages.Drained():
                self._undrained.discard(message.subtask)
                self._enumerators.drained(message.subtask)
                if not self._undrained:
                    self._tell(*self._at_end)
            case messages.Progress():
                self._status.progress(message.worker, message.read, message.measured, message.flow)
            case messages.Failed():
                group.failed([message.subtask])
                self._fail(group, self._cause(group, message.error))
            case WorkerLost():
                self._fail(group, self._lost(group, message))
            case Ready():
                for deployed in self._parts.ready(message.worker):
                    self._deployed(deployed)
            case Pong():
                self._parts.answered(message.worker)
            case Closed():
                self._fail(
                    group, InternalError(f"{task_manager_name(message.worker)} ended before the job did")
                )
            case _:
                raise InternalError(f"the coordinator received an unknown message {type(message).__name__}")

    def _opened(self, group: WorkerGroup, worker: int) -> None:
        group.opened(worker)
        if self._parts.run and self._status.state in ("created", "restarting"):
            self._status.become("running")

    def _deployed(self, group: WorkerGroup) -> None:
        """A region is connected; one that comes back gets its splits again."""
        if group.start_point is not self._start and group.start_point is not None:
            try:
                self._enumerators.reopen(group.vertices, group.start_point.manifest)
            except TidegateError as error:
                self._fail(group, error)
                return
        if self._parts.deployed:
            self._tell(cp.Resume())

    def _fail(self, group: WorkerGroup, error: TidegateError) -> None:
        """A region has failed: it restarts alone if the others do not depend on it, otherwise all regions restart."""
        alone = len(self._parts.worker_groups) == 1 or self._ending
        if alone or not worth_restarting(error) or repeats(self._restart, error):
            raise error
        if not self._parts.stop(group):
            raise used_up(self._startup.program.name, error) from error
        self._status.become("restarting")
        self._status.note("restart", str(error))
        self._status.part_over(group.workers)
        self._undrained |= group.slots.keys() & set(self._sources)
        self._tell(cp.Pause(f"part of the job restarts: {', '.join(map(str, group.slots))}"))
        for checkpoint, work in list(self._coordinator.unsettled.items())[:1]:
            # What its workers were told to commit and did not answer is asked of the systems themselves.
            mine = tuple(committable for committable in work if self._owner(committable) in group.slots)
            self._commit(cp.Commit(checkpoint, mine))

    def _bring_back(self, group: WorkerGroup) -> None:
        try:
            self._drift.forget(group.slots)
            uids = {uid for vertex in group.vertices for uid in vertex.nodes}
            self._parts.start(group, self._startup, self._startup.part_point(self._graph, uids))
        except TidegateError as error:
            self._fail(group, error)

    def _stop(self, request: StopRequested) -> None:
        reason = self._takes_no_checkpoint()
        if reason is None and not self._parts.deployed:
            self._soon(partial(self._stop, request))
            return
        if request.order is not None and not self._take_on(request.order, reason):
            return
        if reason is not None:
            raise JobCancelledError(f"{reason}; the job was cancelled; the next start has no state")
        self._status.become("stopping")
        wanted = () if request.order is None else (cp.SavepointWanted(request.order.place),)
        self._at_end = (*wanted, cp.Finish("stop"))
        if request.drain and self._undrained:
            self._post_all(self._sources, messages.EndInput())
        else:
            self._tell(*self._at_end)

    def _savepoint(self, order: SavepointOrder) -> None:
        if self._take_on(order, self._takes_no_checkpoint()):
            self._tell(cp.SavepointWanted(order.place))

    def _take_on(self, order: SavepointOrder, refusal: str | None) -> bool:
        """Whether the order is new here and can be fulfilled."""
        if refusal is not None:
            order.fail(refusal)
        if refusal is not None or order.place in self._orders:
            return False
        self._orders[order.place] = order
        return True

    def _takes_no_checkpoint(self) -> str | None:
        decided = self._coordinator.confirmed != self._start.checkpoint
        return self._startup.program.takes_no_checkpoint(self._graph, decided=decided)

    def _tell(self, *events: cp.Event) -> None:
        for event in events:
            self._perform(self._coordinator.on(event))

    def _perform(self, actions: list[cp.Action]) -> None:
        for action in actions:
            match action:
                case cp.Trigger() if self._startup.pipeline.record.passes_over(action.checkpoint):
                    log_event(self._status, action)
                    self._trigger(action)
                case cp.Trigger():
                    self._in_background(lambda action=action: self._number(action))  # type: ignore[misc]
                case cp.Announce():
                    for subtask in set(self._graph.subtasks).difference(self._sources):
                        self._post(subtask, action)
                case cp.WriteMetadata():
                    self._enumerators.reported(action.reports)
                    self._in_background(lambda action=action: self._write(action))  # type: ignore[misc] # bound per action
                case cp.SwapLatest():
                    self._in_background(lambda action=action: self._decide(action.checkpoint))  # type: ignore[misc]
                case cp.Commit():
                    self._commit_soon(action)
                case cp.Settle():
                    self._in_background(lambda action=action: self._mark(action.checkpoint))  # type: ignore[misc]
                case cp.Settled():
                    self._status.settled(action.checkpoint)
                    self._post_all(tuple(self._graph.subtasks), action)
                case cp.Release():
                    self._in_background(_if_it_answers(partial(self._startup.pipeline.release, action)))
                    self._in_background(partial(self._copies.forget, action.files))
                case cp.WriteSavepoint():
                    self._savepoints.submit(self._write_savepoint, action)
                case cp.SavepointFailed():
                    self._orders.pop(action.place).fail(action.reason)
                case cp.Abort():
                    log_event(self._status, action)
                    self._post_all(tuple(self._graph.subtasks), action)
                case cp.EndJob():
                    self._ended = action.how
                case cp.FailJob():
                    raise action.error

    def _count_last_records(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                match self._events.next(0):
                    case WorkerMessage(message=messages.Progress() as last):
                        self._status.progress(last.worker, last.read, last.measured, last.flow)

    def _trigger(self, action: cp.Trigger) -> None:
        self._enumerated = {action.checkpoint: self._enumerators.snapshot(action.checkpoint)}
        self._post_all(self._sources, action)

    def _number(self, action: cp.Trigger) -> None:
        self._events.put(self._writer.number(action))

    def _write(self, action: cp.WriteMetadata) -> None:
        self._events.put(self._writer.write(action, self._enumerated[action.checkpoint]))

    def _decide(self, checkpoint: CheckpointId) -> None:
        self._events.put(self._writer.decide(checkpoint))

    def _mark(self, checkpoint: CheckpointId) -> None:
        try:
            self._events.put(self._writer.mark(checkpoint))
        except UnavailableError as error:
            self._events.put(SettleMarkFailed(checkpoint, error))

    def _mark_again(self, unmarked: SettleMarkFailed) -> None:
        """While there is input, a full storage does not block; at the end, waiting for it is limited."""
        if self._ending:
            raise unmarked.error
        self._soon(partial(self._in_background, partial(self._mark, unmarked.checkpoint)))

    @property
    def _ending(self) -> bool:
        """Whether the input has ended or the job is stopping."""
        return not self._undrained or self._status.state == "stopping"

    def _soon(self, work: Callable[[], None], delay_s: float = _RETRY_S) -> None:
        self._later.append((self._clock.monotonic() + delay_s, work))

    def _write_savepoint(self, action: cp.WriteSavepoint) -> None:
        self._orders[action.place].write(self._startup, action.checkpoint)
        self._events.put(cp.SavepointOver(action.place))

    def _commit_soon(self, action: cp.Commit) -> None:
        delay_s = self._retries.delay_s(action.committables)
        if delay_s:
            self._soon(partial(self._commit, action), delay_s)
        else:
            self._commit(action)

    def _commit(self, action: cp.Commit) -> None:
        orphaned: list[Committable] = []
        for owner in sorted({self._owner(c) for c in action.committables}):
            mine = tuple(c for c in action.committables if self._owner(c) == owner)
            if self._parts.is_down(self._parts.of(owner)):
                orphaned += mine
            else:
                self._post(owner, cp.Commit(action.checkpoint, mine))
        if orphaned:
            self._in_background(partial(self._commit_here, action.checkpoint, tuple(orphaned)))

    def _commit_here(self, checkpoint: CheckpointId, orphaned: tuple[Committable, ...]) -> None:
        try:
            with contextlib.closing(self._startup.committers(self._graph)) as committers:
                answers = committers.commit(orphaned)
        except UnavailableError as error:
            answers = tuple((committable, Retry(str(error))) for committable in orphaned)
        self._events.put(cp.Answered(checkpoint, answers))

    def _answered(self, answers: cp.Answered) -> None:
        actions, number = self._coordinator.on(answers), answers.checkpoint
        left = by_sink(c for c in self._coordinator.left(number) if c.checkpoint == number)
        log_commit_answers(
            self._status, answers, left, self._retries.answered(answers.answers, self._clock.monotonic())
        )
        self._perform(actions)

    def _owner(self, committable: Committable) -> Subtask:
        return Subtask(self._vertex_of[committable.uid], committable.subtask)

    def _assign(self, vertex: JobVertex, reader: int, splits: tuple[bytes, ...] | None) -> None:
        message = messages.NoMoreSplits() if splits is None else messages.AssignSplits(splits)
        self._post(Subtask(vertex.id, reader), message)

    def _send(self, vertex: JobVertex, reader: int, event: bytes) -> None:
        self._post(Subtask(vertex.id, reader), messages.ToReader(event))

    def _post_all(self, subtasks: Sequence[Subtask], message: messages.ToSubtask) -> None:
        for subtask in subtasks:
            self._post(subtask, message)

    def _post(self, subtask: Subtask, message: messages.ToSubtask) -> None:
        self._parts.of(subtask).post(subtask, message)

    def _cause(self, group: WorkerGroup, error: TidegateError) -> TidegateError:
        """A worker that cannot reach another one often says so before the other one's failure or loss is known."""
        if not isinstance(error, UnavailableError):
            return error
        until, others = self._clock.monotonic() + _HEARSAY_S, list[object]()
        try:
            while (patience := until - self._clock.monotonic()) > 0:
                heard = self._events.next(patience)
                said = heard.message if isinstance(heard, WorkerMessage) and group.is_current(heard) else None
                if isinstance(said, WorkerLost):
                    return self._lost(group, said)
                others.append(heard)
                if isinstance(said, messages.Failed) and not isinstance(said.error, UnavailableError):
                    return said.error
        except queue.Empty:
            pass
        finally:
            self._events.requeue(others)
        return error

    def _lost(self, group: WorkerGroup, message: WorkerLost) -> UnavailableError:
        ran = group.ran_by(message.worker)
        group.failed(ran)
        return UnavailableError(
            f"{task_manager_name(message.worker)} ended ({message.how}); it ran {', '.join(map(str, ran))}"
        )

    def _in_background(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self._events.put(BackgroundFailed(end_of("work on the checkpoint storage", error)))

        self._storage.submit(guarded)


def _if_it_answers(work: Callable[[], None]) -> Callable[[], None]:
    """Actions that are retried soon: a storage that is unavailable or full in between does not fail the job."""

    def tried() -> None:
        with contextlib.suppress(UnavailableError):
            work()

    return tried
