"""Slot assignment of subtasks: a pure function over task managers and their slots.

Subtasks of different vertices share a slot if their slot sharing groups are the same, so a slot can hold a whole
pipeline and a job needs as many slots as its widest vertex has subtasks. Two subtasks of one vertex never share.

Example:
    >>> str(Slot(task_manager=0, number=1))
    'task manager 1, slot 2'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.options import JobOptions

__all__ = ["Slot", "allocate", "cluster_size", "memory_of_task", "memory_shares", "task_manager_name"]

_LEAST_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """A fixed part of a task manager, which is one process."""

    task_manager: int
    number: int
    memory_bytes: int | None = field(default=None, compare=False)
    """Its share of the task manager's managed memory; None without a limit."""

    def __str__(self) -> str:
        return f"{task_manager_name(self.task_manager)}, slot {self.number + 1}"


def task_manager_name(task_manager: int) -> str:
    """What people read of a task manager; they count from one."""
    return f"task manager {task_manager + 1}"


def cluster_size(graph: JobGraph, options: JobOptions) -> tuple[int, int]:
    """How many task managers there are, and how many slots each has."""
    each = options.task_slots
    return options.task_managers or math.ceil(graph.slots / each), each


def allocate(
    graph: JobGraph, task_managers: int, slots_each: int, managed_bytes: int | None = None
) -> dict[Subtask, Slot]:
    """Give every subtask a slot, in scheduling order: vertices from sources to sinks, subtasks by index.

    A subtask goes into the first slot of its sharing group that holds no subtask of its vertex; if there is none, a
    slot is opened on the task manager with the fewest. So subtasks of one group with equal index share a slot, which
    is what co-location asks for.

    Each slot owns an equal part of the `managed_bytes` of its task manager.

    A batch job runs in as many slots as there are: stages follow each other, and subtasks of one vertex may share.

    Raises:
        ConfigError: there are too few slots.
    """
    part = None if managed_bytes is None else managed_bytes // slots_each
    if graph.batch:
        slots = [
            Slot(manager, number, part) for number in range(slots_each) for manager in range(task_managers)
        ]
        return {subtask: slots[subtask.index % len(slots)] for subtask in graph.subtasks}
    if graph.slots > task_managers * slots_each:
        raise ConfigError(
            f"the job needs {graph.slots} slots; got {task_managers * slots_each} "
            f"(task managers: {task_managers}, slots of each: {slots_each}); lower the parallelism, "
            "or raise taskmanager.numberOfTaskSlots or minicluster.number-of-taskmanagers"
        )
    used = Counter[int]()
    opened: dict[str, list[Slot]] = {}
    places: dict[Subtask, Slot] = {}
    for vertex in graph.vertices.values():
        shared = opened.setdefault(vertex.slot_sharing_group, [])
        for subtask in vertex.subtasks:
            # Slots are filled in order, so the first without this vertex is the one with the subtask's number.
            if subtask.index == len(shared):
                chosen = min(range(task_managers), key=lambda index: used[index])
                shared.append(Slot(chosen, used[chosen], part))
                used[chosen] += 1
            places[subtask] = shared[subtask.index]
    return places


def memory_shares(graph: JobGraph, places: Mapping[Subtask, Slot]) -> dict[Subtask, int]:
    """What each subtask with state per key may take of its slot's memory: equal parts for each of its steps with keys.

    Nothing if it is not limited.

    Raises:
        ConfigError: a part is too small to work with.
    """
    steps = {subtask: len(graph.vertices[subtask.vertex].keyed) for subtask in places}
    sharing = Counter[Slot]()
    for subtask, slot in places.items():
        sharing[slot] += steps[subtask]
    shares: dict[Subtask, int] = {}
    for subtask, slot in places.items():
        if slot.memory_bytes is None or not steps[subtask]:
            continue
        each = slot.memory_bytes // sharing[slot]
        shares[subtask] = each * steps[subtask]
        if each < _LEAST_BYTES:
            raise ConfigError(
                f"managed memory is too small: {slot} gives {each} bytes to each of {sharing[slot]} steps "
                f"with state; expected at least {_LEAST_BYTES}; raise taskmanager.memory.managed.size"
            )
    return shares


def memory_of_task(managed_bytes: int | None, tasks: int) -> int | None:
    """What each of the `tasks` that an executor of Spark works on at once may take of its memory; None if it is not limited.

    Raises:
        ConfigError: that is too small to work with.
    """
    if managed_bytes is None:
        return None
    share = managed_bytes // tasks
    if share < _LEAST_BYTES:
        raise ConfigError(
            f"managed memory is too small: it gives {share} bytes to each of the {tasks} tasks that an executor runs in "
            f"parallel; expected at least {_LEAST_BYTES}; raise taskmanager.memory.managed.size"
        )
    return share
