"""Runtime context and life cycle of source and sink functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.connectors.spi import ReaderContext
from tidegate.errors import ConfigError
from tidegate.twophase.spi import ProgramContext, WriterContext

__all__ = ["DetachedContext", "LifeCycle", "program_of"]


@dataclass(frozen=True, slots=True)
class DetachedContext:
    """Runtime context of a function that runs outside a program: its name, index and parallelism."""

    name: str
    index: int
    parallelism: int

    def get_index_of_this_subtask(self) -> int:
        """The index of this parallel instance, from 0."""
        return self.index

    def get_number_of_parallel_subtasks(self) -> int:
        """The number of parallel instances."""
        return self.parallelism

    def get_task_name(self) -> str:
        """The uid of the step."""
        return self.name

    def manage(self, function: object, lock: object = None) -> Any:
        """Accept a function without state; refuse one with state."""
        return self._refuse() if hasattr(function, "snapshot_state") else _save_nothing

    def _refuse(self, *given: object) -> NoReturn:
        raise ConfigError(
            f"the function of {self.name!r} runs outside a program, without metrics, accumulators, parameters, "
            "files or state; run it with env.execute()"
        )

    get_job_parameter = add_accumulator = get_metrics_group = get_distributed_cache = _refuse
    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _refuse
    get_ordered_map_state = _refuse


def program_of(context: WriterContext | ReaderContext) -> ProgramContext:
    """The runtime context for the functions of a writer or reader: the program's, or a `DetachedContext`."""
    return context.program or DetachedContext(context.uid, context.subtask.index, context.parallelism)


class LifeCycle:
    """A function with `open` and `close`."""

    def open(self, runtime_context: Any) -> None:
        """Called once before any other call except the initialization of state, also after a restore."""

    def close(self) -> None:
        """Called once at the end, also after an error."""


def _save_nothing(checkpoint: int) -> None:
    """The snapshot hook of a function without state."""
