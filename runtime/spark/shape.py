"""The shape of a program as a Spark job: sources in the first level, then a level for each exchange in a row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.operators.operator import Role

__all__ = ["Shape", "shape_of"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The subtasks of each level; the index in its tuple is a subtask's partition.

    The level of a subtask is its longest path from a source, so records go only to later levels.
    """

    levels: tuple[tuple[Subtask, ...], ...]

    @property
    def sources(self) -> tuple[Subtask, ...]:
        """The subtasks of sources."""
        return self.levels[0]


def shape_of(graph: JobGraph) -> Shape:
    """Assign the subtasks to the levels of a job.

    Raises:
        ConfigError: a step cannot run in epochs.
    """
    _refuse_unsupported(graph)
    depths: dict[str, int] = {}
    levels: defaultdict[int, list[Subtask]] = defaultdict(list)
    for vertex in graph.vertices.values():
        depths[vertex.id] = max((depths[edge.source] + 1 for edge in vertex.inputs), default=0)
        levels[depths[vertex.id]] += vertex.subtasks
    return Shape(tuple(tuple(levels[depth]) for depth in sorted(levels)))


def _refuse_unsupported(graph: JobGraph) -> None:
    for node in graph.nodes.values():
        if node.kind.role is Role.SOURCE and node.payload.continuous:
            raise ConfigError(
                f"source {node.name!r} (uid {node.uid!r}) must stay open between checkpoints, and readers on Spark live "
                "for one epoch; set execution.target to embedded"
            )
        if node.kind.role is Role.ITERATION:
            raise ConfigError(
                f"iteration {node.uid!r} is not available on Spark, where records cannot go back to an earlier step; "
                "set execution.target to embedded"
            )
