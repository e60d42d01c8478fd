"""Iteration head: a subtask that reads the input of an iteration and its feedback."""

from __future__ import annotations

from concurrent.futures import Executor

from tidegate.elements import MAX_WATERMARK, Batch, Element, EndOfInput, concat
from tidegate.errors import ConfigError
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.task.downstream import DownstreamTask, Grant
from tidegate.runtime.task.exchange import ChannelId, RecordWriter
from tidegate.runtime.task.feedback_queue import FeedbackQueue
from tidegate.runtime.task.runner import Report

__all__ = ["IterationTask"]


class IterationTask(DownstreamTask):
    """Barriers, watermarks and the end of input come from the input; feedback records are queued in memory or on disk.

    At the end of the input it waits until no feedback has arrived for the wait time of the iteration, and until all sent
    records are processed. Then it sends the end of input and reads nothing more until that has come back itself: the
    final checkpoint comes after all records of the iteration.
    """

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
        edges = [edge for edge in vertex.inputs if edge.feedback]
        back = {edge.name for edge in edges}
        coming = [channel for channel in channels if channel.edge not in back]
        super().__init__(
            vertex, env, gates, report, background, channels=coming, grant=grant, blocking=blocking
        )
        self._max_wait_ms: int = vertex.head.payload
        self._round = {channel for channel in channels if channel.edge in back}
        """Feedback channels that are not at their end."""
        self._feedback = FeedbackQueue(edges, env.state.directory)
        self._late = False
        self._lap = 0
        self._quiet_since: float | None = None
        self._over = False

    def deliver(self, channel: ChannelId, element: Element) -> None:
        """Accept an input or feedback element; of feedback only records and the end are used."""
        if channel in self._queues:
            super().deliver(channel, element)
        elif isinstance(element, Batch):
            self._feedback.append(channel, element)
            self._grant(channel, len(element), self._window)
            self._late = self._late or channel not in self._round
        elif isinstance(element, EndOfInput):
            self._round.discard(channel)

    def wait_s(self) -> float | None:
        """Until the wait time is over or a timer is due."""
        waits = [super().wait_s()]
        if self._quiet_since is not None and not self._over:
            waits.append(self._quiet_since + self._max_wait_ms / 1_000 - self._env.machine.monotonic())
        return min((wait for wait in waits if wait is not None), default=None)

    def close(self) -> None:
        """Close the chain and release the disk space."""
        try:
            super().close()
        finally:
            self._feedback.close()

    def _work(self) -> bool:
        if self._lap:
            self._take_back()
            return True
        # Feedback and input alternate, so neither starves the other.
        self._lap = len(self._feedback)
        if self._ending:
            return self._lap > 0 or self._end()
        if self._over and (self._round or self._lap):
            return self._lap > 0
        return super()._work() or self._lap > 0

    @property
    def _at_end(self) -> bool:
        """Also waits until the end of input has come back."""
        return super()._at_end or self._over

    def _take_back(self) -> None:
        if self._late:
            raise ConfigError(
                f"iteration {self._vertex.head.uid!r}: feedback arrived after the iteration had ended, because none had "
                f"arrived for {self._max_wait_ms} ms; give iterate(...) a longer wait time"
            )
        self._quiet_since = None
        taken, count = list[Batch](), 0
        while self._lap and count < self._size.limit:
            self._lap -= 1
            taken.append(self._feedback.popleft())
            count += len(taken[-1])
        # Each round over an exchange splits batches further, so they are merged here.
        for batch in concat(taken):
            self._process_some(batch)
        self.records += count

    def _end(self) -> bool:
        now = self._env.machine.monotonic()
        if not self._chain.operators.empty() or not all(gate.settled for gate in self._gates.values()):
            self._quiet_since = None
        elif self._over:
            self._ending = False
            self._broadcast(EndOfInput())
            return True
        elif self._quiet_since is None:
            self._quiet_since = now
        elif now >= self._quiet_since + self._max_wait_ms / 1_000:
            self._over = True
            self._chain.time.advance_watermark(MAX_WATERMARK)
            return True
        return False

    def _move_time(self, timestamp: int | None) -> None:
        # Event time does not end before the iteration does.
        if timestamp != MAX_WATERMARK:
            super()._move_time(timestamp)
