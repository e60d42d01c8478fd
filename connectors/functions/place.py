"""What source and sink functions have in common: a beginning, an end, and a place where they run."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LifeCycle", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """What such a function can ask for in `open`."""

    name: str
    index: int
    parallelism: int

    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel instances this is, from 0."""
        return self.index

    def get_number_of_parallel_subtasks(self) -> int:
        """How many parallel instances there are."""
        return self.parallelism

    def get_task_name(self) -> str:
        """The uid of the step."""
        return self.name


class LifeCycle:
    """A function with a beginning and an end."""

    def open(self, runtime_context: Place) -> None:
        """Called once before any other call but `restore_state`, also after a restore."""

    def close(self) -> None:
        """Called once at the end, also after an error."""
