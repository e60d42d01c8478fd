"""How a job graph travels to the workers: who runs what, and everything a worker needs to start it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.ids import Branch, CheckpointId, LineageId, PipelineId, RunId, Subtask
from tidegate.runtime.checkpoint.restore import Restored
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.options import JobOptions
from tidegate.runtime.task.exchange import ChannelId

__all__ = ["Deployment", "channels_into", "channels_out_of"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """Sent to every worker at the start of an attempt."""

    worker: int
    places: Mapping[Subtask, int]
    vertices: Mapping[str, bytes]
    main_classes: bytes
    restored: Restored
    checkpoint: CheckpointId | None
    pipeline: PipelineId
    lineage: LineageId
    branch: Branch
    run: RunId
    attempt: str
    storage: Any
    backend: Any
    options: JobOptions
    memory: Mapping[Subtask, int]
    """What subtasks with state may take of their slots' memory, if that is limited."""

    @property
    def mine(self) -> list[Subtask]:
        """What this worker runs."""
        return [subtask for subtask, worker in self.places.items() if worker == self.worker]


def channels_out_of(vertex: JobVertex, index: int) -> dict[str, list[ChannelId]]:
    """The channels of each edge that leaves a subtask."""
    return {
        edge.name: [ChannelId(edge.name, index, target) for target in edge.reached_from(index)]
        for edge in vertex.outputs
    }


def channels_into(vertex: JobVertex, index: int) -> list[ChannelId]:
    """The channels that end at a subtask."""
    return [ChannelId(edge.name, source, index) for edge in vertex.inputs for source in edge.reaching(index)]
