"""Job result: how a run ended, with its counters and accumulators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, PipelineId, RunId
from tidegate.runtime.metrics import Value
from tidegate.runtime.status import RunStatus, State

if TYPE_CHECKING:
    from tidegate.runtime.checkpoint.record import Record
    from tidegate.runtime.job import Startup

__all__ = ["JobResult"]


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a run ended.

    `records` is the number of records that sources have read, including records read again after a restart.
    `resumed_from` is the restored checkpoint, None if the run started without state.
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
    accumulators: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Value] = field(default_factory=dict)
    """The last values of the metrics of user functions."""

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
            accumulators=status.accumulators(),
            metrics=snapshot.metrics,
        )

    @classmethod
    def of_active_run(cls, startup: Startup, ended: Record) -> JobResult:
        """The result of the active run, for a standby; only what the storage records."""
        newest = ended.retained[-1].checkpoint if ended.retained else None
        return cls(
            name=startup.program.name,
            pipeline=startup.pipeline.id,
            run=ended.lease.run,
            state=ended.status,
            records=0,
            restarts=0,
            checkpoint=newest,
            seconds=0.0,
            resumed_from=None,
        )

    @classmethod
    def of_standby(cls, startup: Startup) -> JobResult:
        """The result of a standby that was terminated before it became active."""
        return cls(
            name=startup.program.name,
            pipeline=startup.pipeline.id,
            run=startup.run,
            state="stopped",
            records=0,
            restarts=0,
            checkpoint=None,
            seconds=0.0,
            resumed_from=None,
        )

    def get_job_id(self) -> RunId:
        """The id of the run."""
        return self.run

    def get_net_runtime(self) -> int:
        """The run time in milliseconds."""
        return int(self.seconds * 1000)

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The value of an accumulator in the last attempt.

        Raises:
            ConfigError: no function has registered it.
        """
        if accumulator_name not in self.accumulators:
            known = ", ".join(sorted(self.accumulators)) or "none"
            raise ConfigError(f"unknown accumulator {accumulator_name!r}; known are {known}")
        return self.accumulators[accumulator_name]

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """The values of all accumulators, by name."""
        return dict(self.accumulators)
