"""Events that the coordinator of an attempt receives from its threads."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import TidegateError, UnavailableError
from tidegate.ids import CheckpointId

__all__ = ["BackgroundFailed", "SettleMarkFailed"]


@dataclass(frozen=True, slots=True)
class SettleMarkFailed:
    """The storage did not take the mark of a checkpoint whose output is visible."""

    checkpoint: CheckpointId
    error: UnavailableError


@dataclass(frozen=True, slots=True)
class BackgroundFailed:
    """Something done in the background failed for good."""

    error: TidegateError
