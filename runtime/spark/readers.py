"""Readers of source subtasks in the driver: it holds their splits between epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.enumerators import Enumerators
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.spark.messages import ReadOrder, TaskResult
from tidegate.runtime.task.messages import TimeReached
from tidegate.runtime.task.watermark_alignment import WatermarkAlignment

__all__ = ["Readers"]


@dataclass(slots=True)
class _Reader:
    uid: OperatorUid
    splits: tuple[bytes, ...] = ()
    complete: bool = False


class Readers:
    """Represents the readers to the enumerators, since readers live only as long as a task."""

    def __init__(
        self,
        graph: JobGraph,
        manifest: Manifest | None,
        clock: Clock,
        looked: Callable[[OperatorUid, str | None], None],
        owner: str = "",
    ) -> None:
        self._readers = {
            subtask: _Reader(vertex.head.uid)
            for vertex in graph.vertices.values()
            if vertex.is_source
            for subtask in vertex.subtasks
        }
        self._alignment = WatermarkAlignment.of(graph.vertices.values())
        self._limits: dict[Subtask, int] = {}
        self._clock = clock
        self._enumerators = Enumerators(graph, manifest, self._assign, looked, owner=owner)

    @property
    def drained(self) -> bool:
        """Whether all splits are read and the enumerators have no more."""
        return all(reader.complete and not reader.splits for reader in self._readers.values())

    def orders(self, limit: int | None, *, thorough: bool = False, ending: bool = False) -> list[ReadOrder]:
        """The input for the next epoch; a reader without splits requests some from its enumerator first. Without a limit all input.

        Raises:
            ConfigError: all input is to be read, and an enumerator does not assign all of its splits.
            TidegateError: discovery of splits found an error that stops the job.
        """
        self._enumerators.look(int(self._clock.monotonic() * 1000))
        if limit is None:
            self._deal_all()
        for subtask, reader in self._readers.items():
            if not reader.splits and not reader.complete:
                self._enumerators.request(reader.uid, subtask.index)
        return [
            ReadOrder(
                subtask,
                reader.splits,
                reader.complete,
                limit,
                self._limits.get(subtask),
                thorough,
                ending,
            )
            for subtask, reader in self._readers.items()
        ]

    def snapshot(self, checkpoint: CheckpointId) -> dict[OperatorUid, bytes]:
        """The snapshots of the enumerators."""
        return self._enumerators.snapshot(checkpoint)

    def reported(self, reports: Iterable[OperatorReport]) -> None:
        """Check that each split is in exactly one place, before the epoch is decided."""
        self._enumerators.reported(reports)

    def advance(self, results: Iterable[TaskResult]) -> None:
        """Store the positions that a decided epoch has read to."""
        self._enumerators.decided()
        for result in results:
            reader = self._readers.get(result.subtask)
            if reader is not None:
                mine = [report for report in result.reports if report.uid == reader.uid]
                reader.splits = tuple(split for report in mine for split in report.splits)
                moved = self._alignment.on(TimeReached(result.subtask, result.time))
                self._limits |= {allow.subtask: allow.limit for allow in moved}

    def close(self) -> None:
        """Close the enumerators."""
        self._enumerators.close()

    def _deal_all(self) -> None:
        """Request splits from the enumerators, for each reader in turn, until they have none left."""
        while left := {s: reader for s, reader in self._readers.items() if not reader.complete}:
            dealt = sum(len(reader.splits) for reader in left.values())
            for subtask, reader in left.items():
                self._enumerators.request(reader.uid, subtask.index)
            if not any(r.complete for r in left.values()) and dealt == sum(
                len(r.splits) for r in left.values()
            ):
                raise ConfigError(
                    f"source {next(iter(left.values())).uid!r}: its enumerator neither assigns splits nor signals that there are "
                    "no more, and a batch job on Spark assigns all splits before it reads; set execution.runtime-mode to "
                    "STREAMING, or execution.target to embedded"
                )

    def _assign(self, vertex: JobVertex, index: int, splits: tuple[bytes, ...] | None) -> None:
        reader = self._readers[Subtask(vertex.id, index)]
        if splits is None:
            reader.complete = True
        else:
            reader.splits += splits
