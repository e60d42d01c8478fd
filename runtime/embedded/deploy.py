"""Deployment: assigns the subtasks of a job graph to workers and packs what a worker needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, PipelineId, RunId, Subtask
from tidegate.runtime.checkpoint.restore import Restored
from tidegate.runtime.options import JobOptions
from tidegate.runtime.task.results import Results

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
    term: FencingTerm
    run: RunId
    attempt: str
    storage: Any
    backend: Any
    options: JobOptions
    directory: Path
    """Directory of the worker's working state; the JobManager removes it."""
    copies: Path | None
    """Directory of the worker's copies of snapshot files; None without local recovery."""
    memory: Mapping[Subtask, int]
    """Managed memory of each subtask with state, if it is limited."""
    results: Results | None
    """Directory of the results of a batch job's tasks; None for a stream."""
    finished: frozenset[Subtask]
    """Tasks with complete results, which do not run again."""

    @property
    def mine(self) -> list[Subtask]:
        """What this worker runs."""
        return [subtask for subtask, worker in self.places.items() if worker == self.worker]
