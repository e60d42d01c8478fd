"""One subtask at work: a mailbox of control messages, one input, one chain.

A runner never waits. `step` does one piece of work and says whether there was any; whoever owns the runner decides
when to call it. All calls come from one thread, except that snapshots finish and commits run in the background.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from tidegate import faults
from tidegate.elements import Barrier, Batch, Control, Idle, Watermark
from tidegate.errors import InternalError, StateFormatError, TidegateError, UnavailableError
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.operators.chain import OperatorChain, PendingReports
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.task.exchange import Gate
from tidegate.runtime.task.flow import Flow, FlowMeter
from tidegate.runtime.task.in_flight import resumed
from tidegate.runtime.task.messages import (
    Acked,
    Announce,
    Answered,
    Commit,
    Declined,
    Failed,
    FromSubtask,
    ToSubtask,
    Trigger,
)
from tidegate.twophase.spi import CommitAnswer, Committable, Committer, CommitterContext

__all__ = ["Report", "SubtaskRunner"]

Report = Callable[[FromSubtask], None]
"""Sends a message to the coordinator; safe to call from any thread."""


class SubtaskRunner(ABC):
    """What source subtasks and subtasks behind an exchange have in common."""

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        gates: dict[str, Gate],
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
        self._mailbox: deque[ToSubtask] = deque()
        self._committers: dict[str, Committer] = {}
        self._chain = OperatorChain(vertex, env, self)
        self._resuming = any(env.operator(uid).in_flight for uid in vertex.nodes)
        """Whether records that the checkpoint found on their way are still to be worked off, before any others."""
        self._resumed = resumed(vertex, env)
        self._later: Trigger | Announce | None = None

    @property
    def chain(self) -> OperatorChain:
        """The operators it runs."""
        return self._chain

    def open(self) -> None:
        """Open the chain; called once before the first step."""
        self._chain.open()

    def post(self, message: ToSubtask) -> None:
        """Put a message into the mailbox; it is handled by the next step."""
        self._mailbox.append(message)

    def take_mail(self) -> None:
        """Handle the mailbox."""
        while self._mailbox:
            self._handle(self._mailbox.popleft())

    def step(self) -> bool:
        """Handle the mailbox and due timers, then one piece of input if every receiver can take more."""
        self.take_mail()
        timer = self._chain.next_timer()
        if timer is not None and timer <= self._env.clock.now_ms():
            self._chain.advance_processing_time(self._env.clock.now_ms())
        is_open = self._open
        self._flow.held_up(not is_open)
        if not is_open:
            return False
        for gate in self._gates.values():
            gate.flush_due(self._env.clock.now_ms())
        sent = self._chain.send_arrivals()
        return (self._chain.ready() and (self._resume() if self._resuming else self._work())) or sent

    def flow(self) -> Flow:
        """How freely records moved since this was asked last."""
        return self._flow.read(self._used, self._waiting(), self.records, self._chain.time)

    def wake_at(self) -> int | None:
        """Wall time at which there is something to do even if nothing arrives."""
        times = [self._chain.next_timer()]
        if self._open:
            times += [gate.due_ms for gate in self._gates.values()]
        return min((time for time in times if time is not None), default=None)

    def close(self) -> None:
        """Release everything; called once, also after an error."""
        try:
            for committer in self._committers.values():
                committer.close()
        finally:
            self._chain.close()

    def emit(self, edge: JobEdge, batch: Batch) -> None:
        """Deal what leaves the chain."""
        self._gates[edge.name].emit(batch)

    def watermark(self, edge: JobEdge, timestamp: int) -> None:
        """Tell those behind an edge how far event time is."""
        self._gates[edge.name].broadcast(Watermark(timestamp))

    def idle(self, edge: JobEdge, idle: bool) -> None:
        """Tell those behind an edge whether to wait for this one's event time."""
        self._gates[edge.name].broadcast(Idle(idle))

    @property
    def _used(self) -> float:
        """The share of its credit that the fullest outgoing channel has used up."""
        return max((gate.used for gate in self._gates.values()), default=0.0)

    @property
    def _open(self) -> bool:
        """Whether every receiver can take more."""
        return all(gate.open for gate in self._gates.values())

    def _waiting(self) -> float:
        """The share of the credit it has given that is used up."""
        return 0.0

    def _resume(self) -> bool:
        """Work off some of what was on its way; a checkpoint that waits for nothing waits for the end of that."""
        uid, side, element = next(self._resumed, (None, 0, None))
        if isinstance(element, Batch):
            self._chain.process(element, side, at=uid)
        elif element is not None:
            self._begin(element.timestamp)
        else:
            self._resuming = False
            if self._later is not None:
                self._mailbox.appendleft(self._later)
        return True

    def _begin(self, timestamp: int) -> None:
        """Event time goes on from here."""
        self._chain.advance_watermark(timestamp)

    @abstractmethod
    def _work(self) -> bool:
        """Take one piece of input."""

    @abstractmethod
    def _handle_input(self, message: ToSubtask) -> None:
        """Handle a message that concerns the input."""

    def _handle(self, message: ToSubtask) -> None:
        match message:
            case Commit():
                self._background.submit(self._guarded, lambda: self._commit(message))
            case Trigger() | Announce() if self._resuming:
                self._later = message
            case _:
                self._handle_input(message)

    def _broadcast(self, element: Control) -> None:
        for gate in self._gates.values():
            gate.broadcast(element)

    def _snapshot(self, barrier: Barrier, also: list[OperatorReport]) -> None:
        self._acknowledge(barrier.checkpoint, self._save(barrier), lambda: also)

    def _save(self, barrier: Barrier) -> PendingReports:
        """Part what belongs to a checkpoint from what does not, here and behind all exchanges."""
        self._broadcast(barrier)
        pending = self._chain.snapshot(barrier.checkpoint, barrier.confirmed)
        faults.point("task.after-snapshot")
        return pending

    def _acknowledge(self, checkpoint: CheckpointId, *parts: PendingReports) -> None:
        """Make the parts of a checkpoint durable and say so."""
        finish = partial(self._guarded, partial(self._finish, checkpoint, parts))
        if self._env.snapshots_wait:
            finish()
        else:
            self._background.submit(finish)

    def _finish(self, checkpoint: CheckpointId, parts: tuple[PendingReports, ...]) -> None:
        try:
            reports = [report for part in parts for report in part()]
        except (UnavailableError, StateFormatError) as error:
            self._report(Declined(self.subtask, checkpoint, error))
            return
        faults.point("task.before-ack")
        self._report(Acked(self.subtask, checkpoint, tuple(reports)))

    def _commit(self, message: Commit) -> None:
        faults.point("commit.before")
        answers: list[tuple[Committable, CommitAnswer]] = []
        for uid in sorted({committable.uid for committable in message.committables}):
            mine = [committable for committable in message.committables if committable.uid == uid]
            if uid not in self._committers:
                env = self._env
                context = CommitterContext(env.pipeline, uid, env.lineage, env.clock)
                self._committers[uid] = self._vertex.nodes[uid].payload.open_committer(context)
            answers += zip(mine, self._committers[uid].commit(mine), strict=True)
        faults.point("commit.after")
        self._report(Answered(self.subtask, message.checkpoint, tuple(answers)))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TidegateError as error:
            self._report(Failed(self.subtask, error))
        except Exception as error:
            self._report(
                Failed(
                    self.subtask, InternalError(f"subtask {self.subtask}: {type(error).__name__}: {error}")
                )
            )
