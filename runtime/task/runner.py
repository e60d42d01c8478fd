"""Stream task: the runtime of one subtask, with a mailbox of control messages, one input and one chain.

A task never blocks. `step` does one piece of work and returns whether there was any; the caller decides when to call it.
All calls come from one thread; snapshots are completed and commits run in the background.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from tidegate import faults
from tidegate.elements import Barrier, Batch, Control, Idle, Watermark
from tidegate.errors import StateFormatError, UnavailableError
from tidegate.failures import end_of
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint.protocol import Abort, Ack, Answered, Commit, Decline, Settled, Trigger
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.operators.chain import OperatorChain, PendingReports
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.operator import Piece
from tidegate.runtime.task.batch_size import USUAL_S, BatchSize
from tidegate.runtime.task.exchange import RecordWriter
from tidegate.runtime.task.flow import Flow, FlowMeter
from tidegate.runtime.task.in_flight import Backlog
from tidegate.runtime.task.messages import Failed, FromSubtask, ToSubtask
from tidegate.twophase.committing import SinkCommitters, work_by_sink
from tidegate.twophase.spi import Committer, CommitterContext

__all__ = ["Report", "StreamTask"]

Report = Callable[[FromSubtask], None]
"""Sends a message to the coordinator; thread-safe."""


class StreamTask(ABC):
    """Base of source tasks and downstream tasks."""

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        gates: dict[str, RecordWriter],
        report: Report,
        background: Executor,
    ) -> None:
        self.subtask: Subtask = env.subtask
        self.records = 0
        self._vertex = vertex
        self._env = env
        self._gates = gates
        self._report = report
        self._background = background
        self._flow = FlowMeter(env.clock)
        self._size = BatchSize()
        self._mailbox: deque[ToSubtask] = deque()
        self._committers = SinkCommitters(self._open_committer)
        self._chain = OperatorChain(vertex, env, self)
        self._backlog = Backlog(vertex, env)
        self._later: Trigger | None = None

    @property
    def chain(self) -> OperatorChain:
        """The operator chain of this subtask."""
        return self._chain

    @property
    def reusable(self) -> bool:
        """Whether its output can replace running it again, after its input has ended."""
        return self._chain.snapshots.spent and self.subtask not in self._env.measures.adding

    def open(self) -> None:
        """Open the chain; called once before the first step."""
        self._chain.open()

    def post(self, message: ToSubtask) -> None:
        """Add a message to the mailbox; the next step handles it."""
        self._mailbox.append(message)

    def take_mail(self) -> None:
        """Handle all messages in the mailbox."""
        while self._mailbox:
            self._handle(self._mailbox.popleft())

    def step(self) -> bool:
        """Handle the mailbox, then, if every receiver has credit, a piece of the due timers or of the input."""
        self.take_mail()
        time, is_open = self._chain.time, self._open
        self._flow.held_up(not is_open)
        if not is_open:
            return False
        for gate in self._gates.values():
            gate.flush_due()
        timer = time.next_timer() if not time.due else None
        if timer is not None and timer <= self._env.clock.now_ms():
            time.advance_processing_time(self._env.clock.now_ms())
        fired = time.due > 0 and self._fire()
        if time.due > 0 or (fired and not self._open):
            return fired
        sent = time.send_arrivals() or fired
        return (self._chain.operators.ready() and (self._resume() if self._backlog else self._work())) or sent

    def flow(self) -> Flow:
        """Flow metrics since the last call."""
        return self._flow.read(self._used, self._waiting(), self.records, self._chain.time.reached)

    def wait_s(self) -> float | None:
        """Seconds until there is work even if nothing arrives; None if unknown."""
        if not self._open:
            return None
        timer = self._chain.time.next_timer() if not self._chain.time.due else None
        waits = [None if timer is None else (timer - self._env.clock.now_ms()) / 1_000]
        waits += [gate.wait_s for gate in self._gates.values()]
        return min((wait for wait in waits if wait is not None), default=None)

    def close(self) -> None:
        """Release everything; called once, also after an error."""
        try:
            self._committers.close()
            for gate in self._gates.values():
                gate.close()
        finally:
            self._chain.close()

    def emit(self, edge: JobEdge, batch: Batch) -> None:
        """Send a batch of the chain's output."""
        self._gates[edge.name].emit(batch)

    def watermark(self, edge: JobEdge, timestamp: int) -> None:
        """Send a watermark over an edge."""
        self._gates[edge.name].broadcast(Watermark(timestamp))

    def idle(self, edge: JobEdge, idle: bool) -> None:
        """Send a change of idleness over an edge."""
        self._gates[edge.name].broadcast(Idle(idle))

    @property
    def _used(self) -> float:
        """The used fraction of the credit of the fullest output channel."""
        return max((gate.used for gate in self._gates.values()), default=0.0)

    @property
    def _open(self) -> bool:
        """Whether every receiver has credit."""
        return all(gate.open for gate in self._gates.values())

    def _waiting(self) -> float:
        """The used fraction of the credit that it has granted."""
        return 0.0

    def _fire(self) -> bool:
        """Fire a piece of the due timers and measure its time; False if a receiver has no credit."""
        time, clock = self._chain.time, self._env.clock
        start = clock.monotonic()
        records = time.work(Piece(self._size.limit, start + USUAL_S, clock.monotonic))
        if records is None:
            return time.send_arrivals()
        if records:
            self._learn(clock.monotonic() - start, records)
        return True

    def _resume(self) -> bool:
        """Process some of the restored in-flight records, before any other records."""
        found = self._backlog.take(self._size.limit)
        if found is None:
            if self._later is not None:
                self._mailbox.appendleft(self._later)
        elif isinstance(found.element, Batch):
            self._process_some(found.element, found.side, at=found.uid)
        else:
            self._begin(found.element.timestamp)
        return True

    def _process_some(self, batch: Batch, side: int = 0, *, at: OperatorUid | None = None) -> float:
        """Process a piece of a batch and adapt the batch size; returns the seconds it took."""
        start = self._env.clock.monotonic()
        self._chain.data.process(batch, side, at=at)
        took = self._env.clock.monotonic() - start
        self._learn(took, len(batch))
        return took

    def _learn(self, seconds: float, records: int) -> None:
        filled = max((gate.filled() for gate in self._gates.values()), default=0.0)
        self._size.took(seconds, records, filled=filled)

    def _begin(self, timestamp: int) -> None:
        """Continue with a restored watermark."""
        self._chain.time.advance_watermark(timestamp)

    @abstractmethod
    def _work(self) -> bool:
        """Process one piece of input; returns whether there was any."""

    @abstractmethod
    def _handle_input(self, message: ToSubtask) -> None:
        """Handle a message for the input."""

    def _handle(self, message: ToSubtask) -> None:
        match message:
            case Commit():
                self._background.submit(self._guarded, lambda: self._commit(message))
            case Trigger() if self._backlog:
                self._later = message  # a source has no in-flight data: the checkpoint waits until the backlog is processed
            case Settled():
                self._settled(message.checkpoint)
            case Abort():
                self._chain.snapshots.aborted(message.checkpoint)
            case _:
                self._handle_input(message)

    def _settled(self, checkpoint: CheckpointId) -> None:
        self._chain.snapshots.completed(checkpoint)

    def _broadcast(self, element: Control) -> None:
        for gate in self._gates.values():
            gate.broadcast(element)

    def _snapshot(self, barrier: Barrier, also: list[OperatorReport]) -> None:
        self._acknowledge(barrier.checkpoint, self._save(barrier), lambda: also)

    def _save(self, barrier: Barrier) -> PendingReports:
        """Send the barrier downstream and snapshot the chain."""
        self._broadcast(barrier)
        pending = self._chain.snapshots.take(barrier.checkpoint, barrier.confirmed)
        faults.point("task.after-snapshot")
        return pending

    def _acknowledge(self, checkpoint: CheckpointId, *parts: PendingReports) -> None:
        """Make the parts of a checkpoint durable and acknowledge it."""
        finish = partial(self._guarded, partial(self._finish, checkpoint, parts))
        if self._env.snapshots_wait:
            finish()
        else:
            self._background.submit(finish)

    def _finish(self, checkpoint: CheckpointId, parts: tuple[PendingReports, ...]) -> None:
        try:
            reports = [report for part in parts for report in part()]
        except (UnavailableError, StateFormatError) as error:
            self._report(Decline(self.subtask, checkpoint, error))
            return
        # Declining would not help: the prepared output would be even older at the next checkpoint.
        spare_ms = self._chain.snapshots.spare_ms()
        faults.point("task.before-ack")
        self._report(Ack(self.subtask, checkpoint, tuple(reports), spare_ms))

    def _commit(self, message: Commit) -> None:
        faults.point("commit.before")
        parts = [self._committers.commit(uid, work) for uid, work in work_by_sink(message.committables)]
        faults.point("commit.after")
        self._report(Answered(message.checkpoint, tuple(answer for part in parts for answer in part)))

    def _open_committer(self, uid: OperatorUid) -> Committer:
        env = self._env
        context = CommitterContext(env.pipeline, uid, env.lineage, env.clock, term=env.term)
        committer: Committer = self._vertex.nodes[uid].payload.open_committer(context)
        return committer

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._report(Failed(self.subtask, end_of(f"subtask {self.subtask}", error)))
