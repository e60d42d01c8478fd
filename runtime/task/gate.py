"""A subtask behind an exchange."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor

from tidegate.elements import Barrier, Batch, Element, EndOfInput, Idle, Watermark
from tidegate.errors import InternalError
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.task.alignment import Alignment, BarrierArrived, Block, Inputs, Snapshot, Unblock
from tidegate.runtime.task.batch_size import BatchSize
from tidegate.runtime.task.exchange import CREDIT, ChannelId, Gate
from tidegate.runtime.task.messages import Settled, ToSubtask
from tidegate.runtime.task.runner import Report, SubtaskRunner

__all__ = ["GateRunner", "Grant"]

Grant = Callable[[ChannelId], None]
"""Tells the sender of a channel that one of its batches is worked off."""


class GateRunner(SubtaskRunner):
    """Takes elements from its channels in turn, holds the blocked ones, aligns barriers and watermarks."""

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        gates: dict[str, Gate],
        report: Report,
        background: Executor,
        *,
        channels: list[ChannelId],
        grant: Grant,
    ) -> None:
        super().__init__(vertex, env, gates, report, background)
        self._queues: dict[ChannelId, deque[Element]] = {channel: deque() for channel in channels}
        self._sides = {edge.name: edge.side for edge in vertex.inputs}
        self._turns = deque(channels)
        self._blocked: set[ChannelId] = set()
        self._alignment = Alignment(channels)
        self._inputs = Inputs(channels)
        self._grant = grant
        self._ending = False
        self._aligned: Barrier | None = None
        """Behind it nothing is taken until the chain can be cut."""
        self._size = BatchSize()

    def deliver(self, channel: ChannelId, element: Element) -> None:
        """Take an element that arrived; called by the thread that calls `step`."""
        self._queues[channel].append(element)

    def _waiting(self) -> float:
        batches = (sum(isinstance(e, Batch) for e in queue) for queue in self._queues.values())
        return min(1.0, max(batches, default=0) / CREDIT)

    def _work(self) -> bool:
        if self._aligned is not None:
            return self._cut(self._aligned)
        if self._ending:
            if not self._chain.empty():
                return False
            self._ending = False
            self._broadcast(EndOfInput())
        for _ in range(len(self._turns)):
            channel = self._turns[0]
            self._turns.rotate(-1)
            if channel not in self._blocked and self._queues[channel]:
                self._take(channel, self._queues[channel].popleft())
                return True
        return False

    def _take(self, channel: ChannelId, element: Element) -> None:
        match element:
            case Batch():
                self._process(channel, element)
            case Watermark():
                self._move_time(self._inputs.watermark(channel, element.timestamp))
            case Barrier():
                self._align(channel, element)
            case Idle():
                before = self._inputs.all_idle
                self._move_time(self._inputs.idle(channel, element.idle))
                if self._inputs.all_idle != before:
                    self._chain.advance_idleness(not before)
            case EndOfInput():
                self._ending = self._inputs.end(channel)

    def _process(self, channel: ChannelId, batch: Batch) -> None:
        """Work on as much of a batch as control can wait for; the rest has its turn later."""
        limit = self._size.limit
        if len(batch) > limit:
            self._queues[channel].appendleft(batch.part(slice(limit, None)))
            batch = batch.part(slice(limit))
        else:
            self._grant(channel)
        start = self._env.clock.monotonic()
        self._chain.process(batch, self._sides[channel.edge])
        self._size.took(self._env.clock.monotonic() - start, len(batch))
        self.records += len(batch)

    def _move_time(self, timestamp: int | None) -> None:
        if timestamp is not None:
            self._chain.advance_watermark(timestamp)

    def _align(self, channel: ChannelId, barrier: Barrier) -> None:
        for action in self._alignment.on(BarrierArrived(channel, barrier.checkpoint)):
            match action:
                case Block():
                    self._blocked.add(channel)
                case Unblock():
                    self._blocked.clear()
                case Snapshot():
                    self._cut(barrier)

    def _cut(self, barrier: Barrier) -> bool:
        """Take the snapshot of an aligned barrier, now or when the chain can be cut."""
        if not self._chain.settled():
            self._aligned = barrier
            return False
        self._aligned = None
        self._snapshot(barrier, [])
        return True

    def _handle_input(self, message: ToSubtask) -> None:
        if isinstance(message, Settled):
            return
        raise InternalError(f"subtask {self.subtask} has no source but was sent {type(message).__name__}")
