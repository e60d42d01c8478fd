"""What each subtask starts from, on its way to its task: dealt to the source tasks, which pass on what is for others.

An order goes to every task, so what is in it for one of them would go to all: what the tasks of a wide program
together start from, as often as there are tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.ids import OperatorUid
from tidegate.runtime.checkpoint.restore import Restored
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.spark.messages import ReadOrder
from tidegate.runtime.spark.shape import Shape

__all__ = ["start_of", "with_starts"]


def with_starts(shape: Shape, restored: Restored, reads: Sequence[ReadOrder]) -> list[ReadOrder]:
    """What to read, with what the reader starts from and what later subtasks of its place do."""
    return [
        replace(
            read,
            starts={
                subtask: pickle.dumps(restored[subtask], pickle.HIGHEST_PROTOCOL)
                for level in shape.levels
                for subtask in level[place :: len(reads)]
                if restored.get(subtask)
            },
        )
        for place, read in enumerate(reads)
    ]


def start_of(data: bytes | None) -> Mapping[OperatorUid, RestoredOperator]:
    """What a subtask starts from; nothing if it is new."""
    return pickle.loads(data) if data is not None else {}  # noqa: S301  # our own bytes
