"""Checkpoint writer: performs the coordinator's actions on the checkpoint storage and returns the resulting events."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.backends.keyed.segment import chunk_size
from tidegate.clock import Clock
from tidegate.connectors.spi import SupportsPreCommit
from tidegate.errors import FencedError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.assemble import assemble
from tidegate.runtime.checkpoint.manifest import Manifest, Unsettled, chunks_of
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.observe.checkpoints import by_sink
from tidegate.twophase.committing import work_by_sink

__all__ = ["CheckpointWriter"]


class CheckpointWriter:
    """Writes the checkpoints of one attempt. Methods may block on the storage; one thread at a time."""

    def __init__(
        self, pipeline: Pipeline, graph: JobGraph, clock: Clock, finish: Callable[[Unsettled], None]
    ) -> None:
        self._pipeline = pipeline
        self._finish = finish
        self._promised: dict[CheckpointId, Unsettled] = {}
        self._graph = graph
        self._clock = clock
        self.written: Manifest | None = None
        """The last durable checkpoint, decided or not."""

    @property
    def weight(self) -> tuple[int, dict[str, int]]:
        """Of what was made durable last: the bytes it refers to, and how many pieces of output of each sink it promises."""
        assert self.written is not None
        promised = (u for u in self.written.unsettled if u.checkpoint == self.written.checkpoint)
        pieces = by_sink(each for known in promised for each in known.committables)
        return sum(map(chunk_size, chunks_of(self.written))), pieces

    def write(
        self, action: cp.WriteMetadata, enumerators: Mapping[OperatorUid, bytes], not_before_ms: int = 0
    ) -> cp.MetadataDurable | cp.MetadataFailed:
        """Make the metadata durable, if no sink refuses what it would promise.

        It says when it was written, or `not_before_ms` where the clock has gone back behind that.
        """
        manifest = assemble(
            self._pipeline,
            self._graph,
            action.checkpoint,
            action.reports,
            action.unsettled,
            enumerators=enumerators,
            created_ms=max(self._clock.now_ms(), not_before_ms),
        )
        try:
            self._ask_sinks(action)
            files = self._pipeline.archive.write(manifest)
        except UnavailableError as error:
            return cp.MetadataFailed(action.checkpoint, error)
        self.written = manifest
        self._promised = {each.checkpoint: each for each in action.unsettled}
        return cp.MetadataDurable(action.checkpoint, files)

    def number(self, action: cp.Trigger) -> cp.Trigger | cp.SwapLost | cp.MetadataFailed:
        """Make sure that no other checkpoint ever has the number of this one, before it begins; raises as `decide` does."""
        return self._swapped(action.checkpoint, self._pipeline.use) or action

    def decide(self, checkpoint: CheckpointId) -> cp.Swapped | cp.SwapLost | cp.MetadataFailed:
        """Make the checkpoint the pipeline's newest.

        Raises:
            UnavailableError: it is not known whether it is.
        """
        return self._swapped(checkpoint, self._pipeline.decide) or cp.Swapped(checkpoint)

    def mark(self, checkpoint: CheckpointId) -> cp.SettledDurable:
        """Finish the output of a checkpoint, all of which is visible, and write down that it is.

        Raises:
            UnavailableError: the storage or a system outside did not answer.
        """
        if checkpoint in self._promised:
            self._finish(self._promised[checkpoint])
        self._pipeline.archive.mark_settled(Retained(self._pipeline.run, checkpoint))
        return cp.SettledDurable(checkpoint)

    def _ask_sinks(self, action: cp.WriteMetadata) -> None:
        promised = [c for u in action.unsettled if u.checkpoint == action.checkpoint for c in u.committables]
        for uid, work in work_by_sink(promised):
            sink = self._graph.nodes[uid].payload
            if isinstance(sink, SupportsPreCommit):
                sink.pre_commit(action.checkpoint, work)

    def _swapped(
        self, checkpoint: CheckpointId, swap: Callable[[CheckpointId], None]
    ) -> cp.SwapLost | cp.MetadataFailed | None:
        """Why the record of the pipeline is as it was, if it is."""
        try:
            swap(checkpoint)
        except FencedError as error:
            return cp.SwapLost(checkpoint, str(error))
        except UnavailableError as error:
            if not self._pipeline.unchanged():
                raise
            return cp.MetadataFailed(checkpoint, error)
        return None
