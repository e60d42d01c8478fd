"""Sources of an attempt, as the coordinator sees them: their splits, their event time, and which still have input."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.discovery import DiscoveryResult
from tidegate.runtime.enumerators import Enumerators
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.job import StartPoint
from tidegate.runtime.task.messages import (
    AssignSplits,
    Drained,
    EndInput,
    NoMoreSplits,
    ReadUntil,
    SplitsWanted,
    TimeReached,
    ToEnumerator,
    ToReader,
    ToSubtask,
)
from tidegate.runtime.task.watermark_alignment import WatermarkAlignment

__all__ = ["FromSource", "SourceCoordination"]

FromSource = SplitsWanted | ToEnumerator | TimeReached | Drained
"""Messages of source subtasks."""


class SourceCoordination:
    """Answers the messages of source subtasks.

    Args:
        start: Where the attempt begins.
        looked: Is told of each look for splits why it failed, or None.
        found: Takes what looks for more splits bring; called by another thread.
        post: Sends a message to a subtask.
    """

    def __init__(
        self,
        start: StartPoint,
        looked: Callable[[OperatorUid, str | None], None],
        found: Callable[[DiscoveryResult], None],
        post: Callable[[Subtask, ToSubtask], None],
    ) -> None:
        vertices = start.graph.vertices.values()
        self.subtasks = [subtask for vertex in vertices if vertex.is_source for subtask in vertex.subtasks]
        self.undrained = set(self.subtasks)
        """Those that have not read everything yet."""
        self._post = post
        self._alignment = WatermarkAlignment.of(vertices)
        self.enumerators = Enumerators(
            start.graph, start.manifest, self._assign, looked, found, self._send, start.ended, start.owner
        )

    def on(self, message: FromSource) -> None:
        """A source subtask says something."""
        match message:
            case SplitsWanted():
                self.enumerators.request(message.uid, message.reader, message.received)
            case ToEnumerator():
                self.enumerators.reader_event(message.uid, message.reader, message.event)
            case TimeReached():
                for each in self._alignment.on(message):
                    self._post(each.subtask, ReadUntil(each.limit))
            case Drained():
                self.undrained.discard(message.subtask)
                self.enumerators.drained(message.subtask)

    def end_input(self) -> None:
        """Have all sources read nothing more."""
        for subtask in self.subtasks:
            self._post(subtask, EndInput())

    def failed(self, subtasks: Collection[Subtask]) -> None:
        """These subtasks, some of which may be sources, run again later."""
        self.undrained |= set(subtasks) & set(self.subtasks)

    def restarting(self, subtasks: Collection[Subtask]) -> None:
        """These subtasks start again."""
        self._alignment.forget(subtasks)

    def _assign(self, vertex: JobVertex, reader: int, splits: tuple[bytes, ...] | None) -> None:
        message = NoMoreSplits() if splits is None else AssignSplits(splits)
        self._post(Subtask(vertex.id, reader), message)

    def _send(self, vertex: JobVertex, reader: int, event: bytes) -> None:
        self._post(Subtask(vertex.id, reader), ToReader(event))
