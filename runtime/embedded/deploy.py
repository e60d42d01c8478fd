"""How a job graph travels to the workers: who runs what, and everything a worker needs to start it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.ids import Branch, CheckpointId, LineageId, PipelineId, RunId, Subtask
from tidegate.runtime.checkpoint.restore import Restored
from tidegate.runtime.options import JobOptions

__all__ = ["Deployment"]


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
