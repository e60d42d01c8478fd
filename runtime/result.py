"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.ids import CheckpointId, PipelineId, RunId
from tidegate.runtime.status import RunStatus, State

if TYPE_CHECKING:
    from tidegate.runtime.job import Startup

__all__ = ["JobResult"]


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a run ended.

    `records` counts what sources have read, records read again after a restart included. `resumed_from` is the
    checkpoint it went on from, None if it began anew.
    """

    name: str
    pipeline: PipelineId
    run: RunId
    state: State
    records: int
    restarts: int
    checkpoint: CheckpointId | None
    seconds: float
    resumed_from: CheckpointId | None

    @classmethod
    def of(cls, startup: Startup, status: RunStatus) -> JobResult:
        """The result of a run that has ended."""
        snapshot = status.snapshot()
        return cls(
            name=startup.program.name,
            pipeline=startup.pipeline.id,
            run=startup.run,
            state=snapshot.state,
            records=snapshot.records,
            restarts=snapshot.restarts,
            checkpoint=snapshot.newest_settled,
            seconds=snapshot.elapsed_s,
            resumed_from=startup.resumed_from,
        )
