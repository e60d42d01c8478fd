"""Watermark alignment of sources: limits how far a source may be ahead of others; pure, driven by their reports.

A member that has not reported yet holds back the others of its group; one that is idle or at its end does not.

Example:
    >>> alignment = WatermarkAlignment({"a[0]": Aligned("all", 100), "b[0]": Aligned("all", 100)})
    >>> alignment.on(TimeReached("a[0]", 5_000))
    []
    >>> alignment.on(TimeReached("b[0]", 10))
    [Allow(subtask='a[0]', limit=110), Allow(subtask='b[0]', limit=110)]
    >>> alignment.on(TimeReached("b[0]", None))
    [Allow(subtask='a[0]', limit=5100), Allow(subtask='b[0]', limit=5100)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.stream.watermarks import Aligned
from tidegate.runtime.task.messages import TimeReached

__all__ = ["Allow", "WatermarkAlignment"]


@dataclass(frozen=True, slots=True)
class Allow:
    """Allow a source to read up to event time `limit`."""

    subtask: Subtask
    limit: int


class WatermarkAlignment:
    """The groups of aligned sources of a job."""

    @classmethod
    def of(cls, vertices: Iterable[JobVertex]) -> Self:
        """All aligned sources of a job."""
        return cls(
            {
                subtask: vertex.head.watermarks.aligned
                for vertex in vertices
                if vertex.head.watermarks is not None and vertex.head.watermarks.aligned is not None
                for subtask in vertex.subtasks
            }
        )

    def __init__(self, members: Mapping[Subtask, Aligned]) -> None:
        self._members = members
        self._times: dict[Subtask, int | None] = dict.fromkeys(members, MIN_WATERMARK)
        self._allowed: dict[Subtask, int] = {}

    def forget(self, subtasks: Iterable[Subtask]) -> None:
        """Reset subtasks that restart: they have no limit and hold back the others until they report."""
        for subtask in subtasks:
            if subtask in self._members:
                self._times[subtask] = MIN_WATERMARK
                self._allowed.pop(subtask, None)

    def on(self, event: TimeReached) -> list[Allow]:
        """Handle a report; returns the limits that changed. A subtask without a group changes none."""
        if event.subtask not in self._members:
            return []
        self._times[event.subtask] = event.time
        group = self._members[event.subtask].group
        mates = [subtask for subtask, aligned in self._members.items() if aligned.group == group]
        counted = [time for mate in mates if (time := self._times[mate]) is not None]
        slowest = min(counted, default=MAX_WATERMARK)
        if slowest == MIN_WATERMARK:
            return []
        limits = {mate: min(MAX_WATERMARK, slowest + self._members[mate].drift_ms) for mate in mates}
        moved = {mate: limit for mate, limit in limits.items() if self._allowed.get(mate) != limit}
        self._allowed |= moved
        return [Allow(mate, limit) for mate, limit in moved.items()]
