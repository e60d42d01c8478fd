"""Id types: every id that crosses an interface has its own type.

Swapping two of them in a call is a type error instead of a corrupted checkpoint.

Example:
    >>> Identity(LineageId("9f2c"), Branch(0), CheckpointId(7)).label
    '9f2c.0.7'
"""

from __future__ import annotations

from typing import NewType

import msgspec

__all__ = [
    "Branch",
    "CheckpointId",
    "FencingTerm",
    "Identity",
    "LineageId",
    "OperatorUid",
    "PipelineId",
    "RunId",
    "SplitId",
    "Subtask",
]

PipelineId = NewType("PipelineId", str)
"""A program with its name; survives restarts."""

RunId = NewType("RunId", str)
"""One start of a pipeline (the job id)."""

LineageId = NewType("LineageId", str)
"""A history of checkpoints; `--fresh` begins a new one."""

Branch = NewType("Branch", int)
"""Numbers the continuations of a lineage; restoring an older checkpoint opens the next one."""

FencingTerm = NewType("FencingTerm", int)
"""Numbers the owners of a pipeline's lease; only the holder of the newest may decide."""

CheckpointId = NewType("CheckpointId", int)
"""Counts upwards over restarts and is never used twice in a branch."""

OperatorUid = NewType("OperatorUid", str)
"""Names an operator over program versions; state is found by it."""

SplitId = NewType("SplitId", str)
"""Names a part of a source."""


class Subtask(msgspec.Struct, frozen=True, order=True):
    """One parallel instance of a vertex of the job graph.

    Example:
        >>> str(Subtask("totals", 1))
        'totals[1]'
    """

    vertex: str
    index: int

    def __str__(self) -> str:
        return f"{self.vertex}[{self.index}]"


class Identity(msgspec.Struct, frozen=True):
    """The identity of a commit in external systems: never a run id, so a restarted job recognises its own work."""

    lineage: LineageId
    branch: Branch
    checkpoint: CheckpointId

    @property
    def label(self) -> str:
        """The identity as one word for file names and log lines."""
        return f"{self.lineage}.{self.branch}.{self.checkpoint}"
