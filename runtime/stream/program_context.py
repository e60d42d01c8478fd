"""Function context for the program's resources, accumulators and metrics."""

from __future__ import annotations

from typing import Protocol

from tidegate.runtime.accumulators import Accumulator
from tidegate.runtime.metrics import MetricGroup

__all__ = ["FileCache", "ProgramContext"]


class FileCache(Protocol):
    """Files that every worker has a copy of."""

    def get_file(self, name: str) -> str:
        """The path of this worker's copy of what was registered as `name`."""
        ...


class ProgramContext(Protocol):
    """The part of a runtime context that concerns neither state nor place."""

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A parameter given to the whole program."""
        ...

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Show in the job's result what is added to `accumulator`; one for all that use the name."""
        ...

    def get_metrics_group(self) -> MetricGroup:
        """Metrics of this function in this subtask."""
        ...

    def get_distributed_cache(self) -> FileCache:
        """Files that the program registered."""
        ...
