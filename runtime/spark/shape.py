"""How a program becomes one Spark job per epoch: sources first, then a level for each exchange in a row."""

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
    """The subtasks of each level; the place in its tuple is a subtask's partition.

    A level holds what the longest way from a source to it says, so records go to later levels only.
    """

    levels: tuple[tuple[Subtask, ...], ...]

    @property
    def sources(self) -> tuple[Subtask, ...]:
        """Who reads."""
        return self.levels[0]


def shape_of(graph: JobGraph) -> Shape:
    """Deal the subtasks to the levels of a job.

    Raises:
        ConfigError: a step does not fit into epochs.
    """
    _refuse_misfits(graph)
    depths: dict[str, int] = {}
    levels: defaultdict[int, list[Subtask]] = defaultdict(list)
    for vertex in graph.vertices.values():
        depths[vertex.id] = max((depths[edge.source] + 1 for edge in vertex.inputs), default=0)
        levels[depths[vertex.id]] += vertex.subtasks
    return Shape(tuple(tuple(levels[depth]) for depth in sorted(levels)))


def _refuse_misfits(graph: JobGraph) -> None:
    for node in graph.nodes.values():
        if node.kind.role is Role.SOURCE and node.payload.continuous:
            raise ConfigError(
                f"source {node.name!r} (uid {node.uid!r}) must stay open between checkpoints, and an epoch on Spark opens "
                "its readers anew; set execution.target to embedded"
            )
        if node.kind.role is Role.ITERATION:
            raise ConfigError(
                f"records go round in iteration {node.uid!r}, and an epoch on Spark goes one way; "
                "set execution.target to embedded"
            )
