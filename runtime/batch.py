"""Batch progress: the results of finished tasks that the next attempt of a batch job reuses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.schedule.regions import running_again
from tidegate.runtime.task.results import Results

__all__ = ["BatchProgress"]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The results of finished tasks, and the final positions of their sources."""

    results: Results
    finished: frozenset[Subtask] = frozenset()
    """Tasks that this attempt skips because their results are complete."""
    ended: dict[OperatorUid, bytes] = field(default_factory=dict)
    """The final state of the enumerators of finished sources."""

    def next_attempt(self, graph: JobGraph, *, reuse: bool) -> BatchProgress:
        """The results that the next attempt can use; results that it has to produce again are deleted."""
        finished = self.results.finished(graph) if reuse else frozenset()
        open_sources = {
            subtask
            for vertex in graph.vertices.values()
            if vertex.is_source and vertex.head.uid not in self.ended
            for subtask in vertex.subtasks
        }
        finished = frozenset(graph.subtasks) - running_again(graph, finished - open_sources)
        self.results.keep_only(graph.vertices.values(), finished)
        return replace(self, finished=finished, ended=self._ended(graph, finished))

    def _ended(self, graph: JobGraph, finished: frozenset[Subtask]) -> dict[OperatorUid, bytes]:
        sources = (graph.vertices[subtask.vertex] for subtask in finished)
        return {v.head.uid: self.ended[v.head.uid] for v in sources if v.is_source}

    def described(self, graph: JobGraph) -> str:
        """A message: which tasks run again and which results are reused."""
        again = ", ".join(str(subtask) for subtask in graph.subtasks if subtask not in self.finished)
        kept = ", ".join(str(subtask) for subtask in graph.subtasks if subtask in self.finished)
        return f"{again} run again; " + (
            f"the results of {kept} are read again" if kept else "no results can be reused"
        )
