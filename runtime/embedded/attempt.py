"""One attempt to run a job on a cluster of workers: performs what the checkpoint coordinator decides."""

from __future__ import annotations

import contextlib
import queue
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tidegate.clock import Clock
from tidegate.errors import InternalError, JobCancelledError, TidegateError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint import coordinator as cp
from tidegate.runtime.checkpoint.coordinator import How
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.checkpoint.writer import CheckpointWriter
from tidegate.runtime.embedded.cluster import Cluster, Farewell, WorkerLost
from tidegate.runtime.embedded.deploy import Deployment
from tidegate.runtime.embedded.handshake import Ended
from tidegate.runtime.embedded.inbox import Post
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.enumerators import Enumerators
from tidegate.runtime.graph.execution_graph import Execution
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.slots import called, memory_shares
from tidegate.runtime.shipping import pack_main_classes, pack_vertices
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task import messages
from tidegate.runtime.task.drift import Drift
from tidegate.twophase import ledger

__all__ = ["Attempt", "CancelRequested", "How", "SavepointRequested", "StopRequested"]

_TICK_S = 0.05
_RENEW_S = 3.0
_RETRY_S = 0.5
_HEARSAY_S = 0.5


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the job to take a last checkpoint and end, perhaps with a savepoint and event time at its end."""

    order: SavepointOrder | None = None
    drain: bool = False


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """Somebody wants a savepoint of the job, which goes on."""

    order: SavepointOrder


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody wants the job to end at once."""


@dataclass(frozen=True, slots=True)
class _Unmarked:
    """The storage did not take the mark of a checkpoint whose output is visible."""

    checkpoint: CheckpointId
    error: UnavailableError


@dataclass(frozen=True, slots=True)
class _Broken:
    """Something done in the background failed for good."""

    error: TidegateError


class Attempt:
    """Deploys, coordinates, ends. Everything but storage access happens in the thread that calls `run`."""

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        cluster: Cluster,
        executions: Sequence[Execution],
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
        observe: Callable[[RunStatus], None],
    ) -> None:
        self._startup = startup
        self._start = start
        self._graph = start.graph
        self._cluster = cluster
        self._clock = clock
        self._status = status
        self._restart = restart
        self._observe = observe
        self._executions = executions
        self._places = {each.id.subtask: each.slot.task_manager for each in executions}
        self._memory = memory_shares(start.graph, {each.id.subtask: each.slot for each in executions})
        self._label = executions[0].id.label
        self._copies = LocalRecovery(startup.program.options, startup.run)
        self._vertex_of = {uid: v.id for v in start.graph.vertices.values() for uid in v.nodes}
        self._coordinator = startup.coordinator(start.graph, start)
        self._writer = CheckpointWriter(startup.pipeline, start.graph, clock)
        self._storage = ThreadPoolExecutor(1, thread_name_prefix="tidegate-storage")
        self._savepoints = ThreadPoolExecutor(1, thread_name_prefix="tidegate-savepoint")
        self._orders: dict[str, SavepointOrder] = {}
        self._at_end: tuple[cp.Event, ...] = (cp.Finish("finish"),)
        self._enumerators = Enumerators(start.graph, start.manifest, self._assign)
        self._enumerated: dict[CheckpointId, dict[OperatorUid, bytes]] = {}
        self._sources = [s for v in start.graph.vertices.values() if v.is_source for s in v.subtasks]
        self._undrained = set(self._sources)
        self._drift = Drift(
            {
                subtask: vertex.head.watermarks.aligned
                for vertex in start.graph.vertices.values()
                if vertex.head.watermarks is not None and vertex.head.watermarks.aligned is not None
                for subtask in vertex.subtasks
            }
        )
        self._commits: Counter[CheckpointId] = Counter()
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._renew_at = 0.0
        self._ended: How | None = None

    def run(self) -> How:
        """Run until the last checkpoint is settled.

        Raises:
            TidegateError: the attempt failed; nothing of it is left running.
        """
        farewell: Farewell = "at once"
        try:
            self._deploy()
            while self._ended is None:
                self._tick()
                try:
                    self._hear(self._cluster.heard.get(timeout=_TICK_S))
                    while self._ended is None:
                        self._hear(self._cluster.heard.get_nowait())
                except queue.Empty:
                    pass
            farewell = "gracefully"
            self._end("finished")
            return self._ended
        except (KeyboardInterrupt, JobCancelledError):
            farewell = "impatiently"
            self._status.become("cancelling")
            raise
        except TidegateError:
            self._status.become("failing")
            raise
        finally:
            self._enumerators.close()
            self._cluster.close(farewell)
            self._end("canceled")
            self._count_last_records()
            # A savepoint reads files that the next attempt may delete.
            self._savepoints.shutdown(wait=True)
            self._storage.shutdown(wait=True)
            self._status.attempt_over()

    def _deploy(self) -> None:
        self._status.attempt_begins()
        startup, program = self._startup, self._startup.program
        vertices, main_classes = pack_vertices(self._graph), pack_main_classes()
        self._cluster.deploy(
            [
                Deployment(
                    worker=worker,
                    places=self._places,
                    vertices=vertices,
                    main_classes=main_classes,
                    restored={s: r for s, r in self._start.restored.items() if self._places[s] == worker},
                    checkpoint=self._start.checkpoint,
                    pipeline=startup.pipeline.id,
                    lineage=startup.pipeline.record.lineage,
                    branch=startup.pipeline.record.branch,
                    run=startup.run,
                    attempt=self._label,
                    storage=startup.storage,
                    backend=startup.backend,
                    options=program.options,
                    memory=self._memory,
                )
                for worker in sorted(set(self._places.values()))
            ]
        )

        for execution in self._executions:
            execution.become("deploying")

    def _opened(self, worker: int) -> None:
        for execution in self._executions:
            if execution.slot.task_manager == worker:
                execution.become("running")
        if self._status.state == "created" and all(each.state == "running" for each in self._executions):
            self._status.become("running")

    def _end(self, state: Literal["finished", "canceled"]) -> None:
        for execution in self._executions:
            execution.end(state)

    def _tick(self) -> None:
        now = self._clock.monotonic()
        self._observe(self._status)
        if not self._graph.batch or not self._undrained:
            self._tell(cp.Tick(int(now * 1000)))
        due = [work for at, work in self._later if at <= now]
        self._later = [(at, work) for at, work in self._later if at > now]
        for work in due:
            work()
        if now >= self._renew_at:
            self._renew_at = now + _RENEW_S
            self._in_background(_if_it_answers(self._startup.pipeline.renew))

    def _hear(self, message: object) -> None:
        match message:
            case StopRequested():
                self._stop(message)
            case SavepointRequested():
                self._savepoint(message.order)
            case CancelRequested():
                raise JobCancelledError(f"job {self._startup.program.name!r} was cancelled")
            case _Unmarked():
                self._mark_again(message)
            case _Broken():
                raise message.error
            case cp.TriggerSources():
                self._trigger(message)
            case cp.Swapped():
                self._restart.progressed()
                self._status.note("decided", f"checkpoint {message.checkpoint}")
                self._tell(message)
            case (
                cp.MetadataDurable()
                | cp.MetadataFailed()
                | cp.SwapLost()
                | cp.SettledDurable()
                | cp.SavepointOver()
            ):
                self._tell(message)
            case _:
                self._hear_worker(message)

    def _hear_worker(self, message: object) -> None:
        match message:
            case messages.Acked():
                self._tell(cp.Ack(message.subtask, message.checkpoint, message.reports))
            case messages.Declined():
                self._tell(cp.Decline(message.subtask, message.checkpoint, message.error))
            case messages.Answered():
                self._tell(ledger.Answered(message.checkpoint, message.answers))
            case messages.Opened():
                self._opened(message.worker)
            case messages.SplitsWanted():
                self._enumerators.request(message.uid, message.reader)
            case messages.TimeReached():
                for each in self._drift.on(message):
                    self._post(each.subtask, messages.ReadUntil(each.limit))
            case messages.Drained():
                self._undrained.discard(message.subtask)
                if not self._undrained:
                    self._tell(*self._at_end)
            case messages.Progress():
                self._status.progress(message.worker, message.read, message.measured, message.flow)
            case messages.Failed():
                self._failed(message.subtask)
                raise self._cause(message.error)
            case WorkerLost():
                raise self._lost(message)
            case Ended():
                raise InternalError(f"{called(message.worker)} ended before the job did")
            case _:
                raise InternalError(f"the coordinator was sent {type(message).__name__}")

    def _stop(self, request: StopRequested) -> None:
        reason = self._takes_no_checkpoint()
        if request.order is not None and not self._take_on(request.order, reason):
            return
        if reason is not None:
            raise JobCancelledError(
                f"{reason}; it was cancelled instead of stopped, and the next start begins anew"
            )
        self._status.become("stopping")
        wanted = () if request.order is None else (cp.SavepointWanted(request.order.place),)
        self._at_end = (*wanted, cp.Finish("stop"))
        if request.drain and self._undrained:
            self._post_sources(messages.EndInput())
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
        name = self._startup.program.name
        if self._graph.batch and self._coordinator.confirmed == self._start.checkpoint:
            return f"batch job {name!r} has no checkpoint to go on from before its end"
        if self._graph.iterative and not self._startup.program.options.forced:
            return f"job {name!r} has iterations, so no checkpoint can hold where it is"
        return None

    def _tell(self, *events: cp.Event) -> None:
        for event in events:
            self._perform(self._coordinator.on(event))

    def _perform(self, actions: list[cp.Action]) -> None:
        for action in actions:
            match action:
                case cp.TriggerSources() if self._startup.pipeline.record.passes_over(action.checkpoint):
                    self._trigger(action)
                case cp.TriggerSources():
                    self._in_background(lambda action=action: self._number(action))  # type: ignore[misc]
                case cp.WriteMetadata():
                    self._in_background(lambda action=action: self._write(action))  # type: ignore[misc] # bound per action
                case cp.SwapLatest():
                    self._in_background(lambda action=action: self._decide(action.checkpoint))  # type: ignore[misc]
                case cp.CommitWork():
                    self._commit_soon(action)
                case cp.WriteSettled():
                    self._in_background(lambda action=action: self._mark(action.checkpoint))  # type: ignore[misc]
                case cp.Settled():
                    self._settled(action)
                case cp.WriteSavepoint():
                    self._savepoints.submit(self._write_savepoint, action)
                case cp.SavepointFailed():
                    self._orders.pop(action.place).fail(action.reason)
                case cp.Abort():
                    self._status.note("aborted", f"checkpoint {action.checkpoint}: {action.reason}")
                case cp.Ended():
                    self._ended = action.how
                case cp.FailJob():
                    raise action.error

    def _count_last_records(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._cluster.heard.get_nowait()
                if isinstance(message, messages.Progress):
                    self._status.progress(message.worker, message.read, message.measured, message.flow)

    def _trigger(self, action: cp.TriggerSources) -> None:
        self._status.note("triggered", f"checkpoint {action.checkpoint}")
        self._enumerated = {action.checkpoint: self._enumerators.snapshot(action.checkpoint)}
        self._post_sources(messages.Trigger(action.checkpoint, action.confirmed))

    def _number(self, action: cp.TriggerSources) -> None:
        self._cluster.heard.put(self._writer.number(action))

    def _write(self, action: cp.WriteMetadata) -> None:
        self._cluster.heard.put(self._writer.write(action, self._enumerated[action.checkpoint]))

    def _decide(self, checkpoint: CheckpointId) -> None:
        self._cluster.heard.put(self._writer.decide(checkpoint))

    def _mark(self, checkpoint: CheckpointId) -> None:
        try:
            self._cluster.heard.put(self._writer.mark(checkpoint))
        except UnavailableError as error:
            self._cluster.heard.put(_Unmarked(checkpoint, error))

    def _mark_again(self, unmarked: _Unmarked) -> None:
        """While there is input a full storage holds nobody up; at the end it must not be waited for for ever."""
        if not self._undrained or self._status.state == "stopping":
            raise unmarked.error
        self._soon(partial(self._in_background, partial(self._mark, unmarked.checkpoint)))

    def _soon(self, work: Callable[[], None]) -> None:
        self._later.append((self._clock.monotonic() + _RETRY_S, work))

    def _settled(self, action: cp.Settled) -> None:
        self._status.settled(action.checkpoint)
        self._in_background(_if_it_answers(partial(self._startup.pipeline.release, action.release)))
        self._in_background(partial(self._copies.forget, action.release.files))
        self._post_sources(messages.Settled(action.checkpoint))

    def _write_savepoint(self, action: cp.WriteSavepoint) -> None:
        self._orders[action.place].write(self._startup, action.checkpoint)
        self._cluster.heard.put(cp.SavepointOver(action.place))

    def _commit_soon(self, action: cp.CommitWork) -> None:
        self._commits[action.checkpoint] += 1
        if self._commits[action.checkpoint] > 1:
            self._soon(partial(self._commit, action))
        else:
            self._commit(action)

    def _commit(self, action: cp.CommitWork) -> None:
        owners = {Subtask(self._vertex_of[c.uid], c.subtask) for c in action.committables}
        for owner in sorted(owners):
            mine = tuple(
                c for c in action.committables if Subtask(self._vertex_of[c.uid], c.subtask) == owner
            )
            self._post(owner, messages.Commit(action.checkpoint, mine))

    def _assign(self, vertex: JobVertex, reader: int, splits: tuple[bytes, ...] | None) -> None:
        message = messages.NoMoreSplits() if splits is None else messages.AssignSplits(splits)
        self._post(Subtask(vertex.id, reader), message)

    def _post_sources(self, message: messages.ToSubtask) -> None:
        for subtask in self._sources:
            self._post(subtask, message)

    def _post(self, subtask: Subtask, message: messages.ToSubtask) -> None:
        self._cluster.post(self._places[subtask], Post(subtask, message))

    def _cause(self, error: TidegateError) -> TidegateError:
        """A worker that cannot reach another one often says so before the loss of the other is heard of."""
        if not isinstance(error, UnavailableError):
            return error
        until = self._clock.monotonic() + _HEARSAY_S
        with contextlib.suppress(queue.Empty):
            while (patience := until - self._clock.monotonic()) > 0:
                message = self._cluster.heard.get(timeout=patience)
                if isinstance(message, WorkerLost):
                    return self._lost(message)
        return error

    def _lost(self, message: WorkerLost) -> UnavailableError:
        ran = [subtask for subtask, place in self._places.items() if place == message.worker]
        self._failed(*ran)
        return UnavailableError(
            f"{called(message.worker)} is gone ({message.how}); it ran {', '.join(map(str, ran))}"
        )

    def _failed(self, *subtasks: Subtask) -> None:
        for execution in self._executions:
            if execution.id.subtask in subtasks:
                execution.end("failed")

    def _in_background(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except TidegateError as error:
                self._cluster.heard.put(_Broken(error))
            except Exception as error:
                self._cluster.heard.put(_Broken(InternalError(f"{type(error).__name__}: {error}")))

        self._storage.submit(guarded)


def _if_it_answers(work: Callable[[], None]) -> Callable[[], None]:
    """What is done again before long: a storage that is away or full meanwhile ends nobody."""

    def tried() -> None:
        with contextlib.suppress(UnavailableError):
            work()

    return tried
