"""What source and sink functions have in common: a beginning, an end, and a place where they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError
from tidegate.twophase.spi import ProgramContext

__all__ = ["LifeCycle", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """What such a function can ask for in `open`."""

    name: str
    index: int
    parallelism: int
    program: ProgramContext | None = None

    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel instances this is, from 0."""
        return self.index

    def get_number_of_parallel_subtasks(self) -> int:
        """How many parallel instances there are."""
        return self.parallelism

    def get_task_name(self) -> str:
        """The uid of the step."""
        return self.name

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A parameter given to the whole program."""
        return self._given.get_job_parameter(key, default_value)

    def add_accumulator(self, name: str, accumulator: Any) -> None:
        """Show in the job's result what is added; one for all functions and subtasks that use the name."""
        self._given.add_accumulator(name, accumulator)

    def get_metrics_group(self) -> Any:
        """Metrics of this function in this subtask."""
        return self._given.get_metrics_group()

    def get_distributed_cache(self) -> Any:
        """Files that the program registered."""
        return self._given.get_distributed_cache()

    @property
    def _given(self) -> ProgramContext:
        if self.program is None:
            raise ConfigError(
                f"the function of {self.name!r} runs outside a program, where there are no metrics, accumulators, "
                "parameters or files; run it by env.execute()"
            )
        return self.program


class LifeCycle:
    """A function with a beginning and an end."""

    def open(self, runtime_context: Place) -> None:
        """Called once before any other call but `restore_state`, also after a restore."""

    def close(self) -> None:
        """Called once at the end, also after an error."""
