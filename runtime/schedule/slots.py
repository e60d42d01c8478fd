"""Which subtask runs in which slot: a pure function over task managers and their slots.

Subtasks of different vertices share a slot if their slot sharing groups are the same, so a slot can hold a whole
pipeline and a job needs as many slots as its widest vertex has subtasks. Two subtasks of one vertex never share.

Example:
    >>> str(Slot(task_manager=0, number=1))
    'task manager 1, slot 2'
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.options import JobOptions

__all__ = ["Slot", "allocate", "cluster_size"]


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """A fixed part of a task manager, which is one process."""

    task_manager: int
    number: int

    def __str__(self) -> str:
        return f"task manager {self.task_manager + 1}, slot {self.number + 1}"


def cluster_size(graph: JobGraph, options: JobOptions) -> tuple[int, int]:
    """How many task managers there are, and how many slots each has."""
    each = options.task_slots
    return options.task_managers or math.ceil(graph.slots / each), each


def allocate(graph: JobGraph, task_managers: int, slots_each: int) -> dict[Subtask, Slot]:
    """Give every subtask a slot, in scheduling order: vertices from sources to sinks, subtasks by index.

    A subtask goes into the first slot of its sharing group that holds no subtask of its vertex; if there is none, a
    slot is opened on the task manager with the fewest. Co-located subtasks of equal index always share.

    Raises:
        ConfigError: there are too few slots.
    """
    if graph.slots > task_managers * slots_each:
        raise ConfigError(
            f"the job needs {graph.slots} slots; got {task_managers * slots_each} "
            f"(task managers: {task_managers}, slots of each: {slots_each}); lower the parallelism, "
            "or raise taskmanager.numberOfTaskSlots or minicluster.number-of-taskmanagers"
        )
    slots, places = _Slots(task_managers), dict[Subtask, Slot]()
    co_located: dict[tuple[str, int], Slot] = {}
    for vertex in graph.vertices.values():
        for subtask in vertex.subtasks:
            group = vertex.co_location_group
            fixed = co_located.get((group, subtask.index)) if group is not None else None
            places[subtask] = slot = slots.take(vertex, fixed)
            if group is not None:
                co_located[group, subtask.index] = slot
    return places


@dataclass(slots=True)
class _Shared:
    """An open slot, and the vertices with a subtask in it."""

    slot: Slot
    group: str
    holds: set[str] = field(default_factory=set)


class _Slots:
    def __init__(self, task_managers: int) -> None:
        self._task_managers = task_managers
        self._open: list[_Shared] = []

    def take(self, vertex: JobVertex, fixed: Slot | None) -> Slot:
        group = vertex.slot_sharing_group
        free = (s for s in self._open if s.group == group and vertex.id not in s.holds)
        shared = next((s for s in free if fixed is None or s.slot == fixed), None) or self._new(group)
        shared.holds.add(vertex.id)
        return shared.slot

    def _new(self, group: str) -> _Shared:
        used = Counter(shared.slot.task_manager for shared in self._open)
        chosen = min(range(self._task_managers), key=lambda index: used[index])
        shared = _Shared(Slot(chosen, used[chosen]), group)
        self._open.append(shared)
        return shared
