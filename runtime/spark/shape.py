"""Which programs fit into one Spark job per epoch: sources, then at most one exchange."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.operators.async_process import is_async

__all__ = ["Shape", "shape_of"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The subtasks of the two stages; the place in its tuple is a subtask's partition."""

    sources: tuple[Subtask, ...]
    targets: tuple[Subtask, ...]

    def partition(self, vertex: str, index: int) -> int:
        """The partition of a subtask behind the exchange."""
        return self.targets.index(Subtask(vertex, index))


def shape_of(graph: JobGraph) -> Shape:
    """Deal the subtasks to the stages of a job.

    Raises:
        ConfigError: it is a batch job, or a step does not fit.
    """
    if graph.batch:
        raise ConfigError(
            "runtime mode BATCH is not available on Spark; got a program whose inputs end; set "
            "execution.runtime-mode to STREAMING, which runs it too, or execution.target to embedded"
        )
    for node in graph.nodes.values():
        if node.kind == "stamp" or node.watermarks is not None:
            raise ConfigError(
                f"operator {node.name!r} (uid {node.uid!r}) makes watermarks, which do not pass from epoch to epoch "
                "on Spark yet; set execution.target to embedded"
            )
        if node.kind == "source" and node.payload.continuous:
            raise ConfigError(
                f"source {node.name!r} (uid {node.uid!r}) must stay open between checkpoints, and an epoch on Spark opens "
                "its readers anew; set execution.target to embedded"
            )
        if node.kind == "iterate":
            raise ConfigError(
                f"records go round in iteration {node.uid!r}, and an epoch on Spark goes one way; "
                "set execution.target to embedded"
            )
        if node.kind == "async_wait" or (node.kind in ("process", "co_process") and is_async(node.payload)):
            raise ConfigError(
                f"operator {node.name!r} (uid {node.uid!r}) waits for requests, which an epoch on Spark does not yet; "
                "set execution.target to embedded"
            )
    for vertex in graph.vertices.values():
        for edge in vertex.inputs:
            if not graph.vertices[edge.source].is_source:
                raise ConfigError(
                    f"operator {vertex.head.name!r} (uid {vertex.id!r}) stands behind a second exchange, after "
                    f"{edge.node!r}; on Spark an epoch has one exchange between source and sink; give the "
                    "operators in between one key and equal parallelism, or set execution.target to embedded"
                )
    vertices = graph.vertices.values()
    return Shape(
        tuple(subtask for vertex in vertices if vertex.is_source for subtask in vertex.subtasks),
        tuple(subtask for vertex in vertices if not vertex.is_source for subtask in vertex.subtasks),
    )
