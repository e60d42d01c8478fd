"""Downstream task: a subtask that reads from an exchange."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Final

from tidegate.elements import (
    Barrier,
    Batch,
    BatchCursor,
    Control,
    Element,
    EndOfInput,
    Idle,
    Watermark,
    concat,
)
from tidegate.errors import InternalError
from tidegate.ids import CheckpointId
from tidegate.runtime.checkpoint.protocol import Announce
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.operators.chain import PendingReports
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.task.alignment import (
    Action,
    Alignment,
    Announced,
    BarrierArrived,
    BarrierSeen,
    Block,
    Inputs,
    Overtake,
    Recorded,
    TakeSnapshot,
    Unblock,
)
from tidegate.runtime.task.credit import WorkRate
from tidegate.runtime.task.exchange import ChannelId, RecordWriter
from tidegate.runtime.task.in_flight import Recording, overtakable
from tidegate.runtime.task.messages import ToSubtask
from tidegate.runtime.task.runner import Report, StreamTask

__all__ = ["DownstreamTask", "Grant"]

_TOGETHER: Final = 1_024
"""As many records are still in the processor's caches when they are processed; only a batch that came so has more."""

Grant = Callable[[ChannelId, int, int], None]
"""Grants credit to the sender of a channel: records processed so far, and the new limit."""


class DownstreamTask(StreamTask):
    """Reads its channels in turn, except blocked ones, and aligns barriers and watermarks."""

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        gates: dict[str, RecordWriter],
        report: Report,
        background: Executor,
        *,
        channels: list[ChannelId],
        grant: Grant,
        blocking: bool = True,
    ) -> None:
        super().__init__(vertex, env, gates, report, background)
        self._queues: dict[ChannelId, deque[BatchCursor | Control]] = {
            channel: deque() for channel in channels
        }
        self._sides = {edge.name: edge.side for edge in vertex.inputs}
        self._turns = deque(channels)
        self._blocked: set[Hashable] = set()
        passing = {edge.name for edge in vertex.inputs if overtakable(edge)}
        self._overtakable = {channel for channel in channels if channel.edge in passing}
        self._alignment = Alignment(channels, blocking=blocking, overtakable=self._overtakable)
        self._recording: tuple[Recording, PendingReports] | None = None
        self._inputs = Inputs(channels)
        self._grant = grant
        self._ending = False
        self._due: tuple[Barrier, frozenset[Hashable]] | None = None
        """A pending snapshot and the channels whose barriers it overtakes: no input is read until the chain can be cut."""
        self._rate = WorkRate()

    def resume_time(self, since_ms: int) -> None:
        """Continue with the restored watermark; called before the first step, so the inputs do not advance it again."""
        self._inputs.begin(self._chain.time.resume((), since_ms))

    def deliver(self, channel: ChannelId, element: Element) -> None:
        """Accept an element; called by the thread that calls `step`."""
        self._queues[channel].append(BatchCursor(element) if isinstance(element, Batch) else element)
        self._record(channel, element)

    def _waiting(self) -> float:
        records = (
            sum(len(each) for each in queue if isinstance(each, BatchCursor))
            for queue in self._queues.values()
        )
        return min(1.0, max(records, default=0) / self._window)

    @property
    def _window(self) -> int:
        """The credit limit of each channel."""
        return self._rate.window(len(self._queues))

    def _work(self) -> bool:
        if self._due is not None:
            return self._cut(*self._due)
        if self._ending:
            if not self._chain.operators.empty():
                return False
            self._ending = False
            self._broadcast(EndOfInput())
        return self._take_next(self._blocked)

    def _fire(self) -> bool:
        """Fire a piece of the due timers; barriers at the heads of the queues do not wait for the rest, which is in state."""
        passing = {} if self._at_end else self._queues
        for channel, queue in passing.items():
            while queue and isinstance(queue[0], Barrier) and channel not in self._held:
                self._take(channel, queue)
        if self._due is None:
            return super()._fire()
        sent = self._chain.time.send_arrivals()
        return self._cut(*self._due) or sent

    @property
    def _at_end(self) -> bool:
        """Whether the end of the input waits until all due timers have fired."""
        return self._ending

    def _resume(self) -> bool:
        """Process restored in-flight records, but read channels that cannot be overtaken meanwhile, so their barriers pass."""
        if self._due is not None:
            return self._cut(*self._due)
        return self._take_next(self._held) or super()._resume()

    @property
    def _held(self) -> Collection[Hashable]:
        """The channels that nothing is taken from.

        A snapshot holds what is left of the backlog only if it overtakes channels, so one of them keeps back the barriers of
        others. Where none can be overtaken, as when a lower parallelism has made the exchange a forward one, all wait.
        """
        if not self._backlog:
            return self._blocked
        return self._blocked | self._overtakable if self._overtakable else self._queues.keys()

    def _take_next(self, but: Collection[Hashable]) -> bool:
        """Process an element from the next channel that has one; False if no channel has one."""
        for _ in range(len(self._turns)):
            channel = self._turns[0]
            self._turns.rotate(-1)
            if channel not in but and self._queues[channel]:
                self._take(channel, self._queues[channel])
                return True
        return False

    def _take(self, channel: ChannelId, queue: deque[BatchCursor | Control]) -> None:
        """Process a control element, or as many records as control can wait for; the rest stays in the queue."""
        element = queue[0]
        if isinstance(element, BatchCursor):
            for batch in concat(self._gather(queue)):
                self._process(channel, batch)
            return
        queue.popleft()
        match element:
            case Watermark():
                self._move_time(self._inputs.watermark(channel, element.timestamp))
            case Barrier():
                self._align(self._alignment.on(BarrierArrived(channel, element.checkpoint)), element)
            case Idle():
                before = self._inputs.all_idle
                self._move_time(self._inputs.idle(channel, element.idle))
                if self._inputs.all_idle != before:
                    self._chain.time.advance_idleness(not before)
            case EndOfInput():
                self._ending = self._inputs.end(channel)

    def _gather(self, queue: deque[BatchCursor | Control]) -> Iterator[Batch]:
        """Records that stand first in a channel; small batches together, as each costs as much as a hundred records."""
        cursor = queue[0]
        assert isinstance(cursor, BatchCursor)
        limit, columns = self._size.limit, cursor.columns
        taken = 0
        while True:
            batch = cursor.take(limit - taken)
            if not cursor:
                queue.popleft()
            yield batch
            taken += len(batch)
            if cursor or not queue or taken >= min(limit, _TOGETHER):
                return
            cursor = queue[0]
            if not isinstance(cursor, BatchCursor) or cursor.columns != columns:
                return
            if limit > _TOGETHER and taken + len(cursor) > _TOGETHER:
                return  # cutting it would take longer than what a larger batch saves

    def _process(self, channel: ChannelId, batch: Batch) -> None:
        took = self._process_some(batch, self._sides[channel.edge])
        self.records += len(batch)
        self._rate.processed(len(batch), took + self._flow.held_s())
        self._grant(channel, len(batch), self._window)

    def _move_time(self, timestamp: int | None) -> None:
        if timestamp is not None:
            self._chain.time.advance_watermark(timestamp)

    def _begin(self, timestamp: int) -> None:
        if timestamp > self._inputs.now:
            self._inputs.begin(timestamp)
            super()._begin(timestamp)

    def _align(self, actions: list[Action], barrier: Barrier) -> None:
        for action in actions:
            match action:
                case Block():
                    self._blocked.add(action.channel)
                case Unblock():
                    self._blocked.clear()
                case TakeSnapshot():
                    self._cut(barrier)
                case Overtake():
                    self._cut(barrier, action.channels)
                case Recorded():
                    self._recorded(action.checkpoint)

    def _cut(self, barrier: Barrier, overtaken: frozenset[Hashable] = frozenset()) -> bool:
        """Take a snapshot now, or as soon as the chain can be cut."""
        if not self._chain.operators.settled():
            self._due = barrier, overtaken
            return False
        self._due = None
        if overtaken:
            self._overtake(barrier, overtaken)
        else:
            self._snapshot(barrier, [])
        return True

    def _overtake(self, barrier: Barrier, channels: frozenset[Hashable]) -> None:
        """Take a snapshot before the queued records, and record these until the barriers behind them arrive."""
        marks = {channel: self._inputs.mark(channel) for channel in self._queues}
        recording = Recording(barrier.checkpoint, self._vertex, self.subtask.index, marks, channels)
        recording.add_backlog(self._backlog, self._inputs.now)
        self._recording = recording, self._save(barrier)
        for channel, queue in self._queues.items():
            for element in list(queue):
                self._record(channel, element.rest() if isinstance(element, BatchCursor) else element)

    def _record(self, channel: ChannelId, element: Element) -> None:
        if self._recording is None:
            return
        self._recording[0].add(channel, element)
        if isinstance(element, Barrier):
            self._align(self._alignment.on(BarrierSeen(channel, element.checkpoint)), element)

    def _recorded(self, checkpoint: CheckpointId) -> None:
        if self._recording is None:
            return  # aborted before the snapshot
        (recording, pending), self._recording = self._recording, None
        self._acknowledge(checkpoint, pending, partial(self._in_flight, recording))

    def _in_flight(self, recording: Recording) -> list[OperatorReport]:
        return [
            OperatorReport(uid, self.subtask.index, in_flight=self._env.state.files.store(data))
            for uid, data in recording.encoded().items()
        ]

    def _handle_input(self, message: ToSubtask) -> None:
        match message:
            case Announce():
                announced = Barrier(message.checkpoint, message.confirmed)
                self._align(self._alignment.on(Announced(message.checkpoint)), announced)
            case _:
                raise InternalError(
                    f"subtask {self.subtask} has no source but was sent {type(message).__name__}"
                )
