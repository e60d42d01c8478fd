"""Restore routing: restored state is sent to the source tasks, which pass it on to later tasks.

An epoch's order is sent to every task, so state in the order would be sent to all tasks, not only to its own.
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
    """The input of each reader, with its restored state and that of later subtasks of the same index."""
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
    """The restored state of a subtask; empty if it is new."""
    return pickle.loads(data) if data is not None else {}  # noqa: S301  # our own bytes
