"""What people ask of a running job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.runtime.checkpoint.orders import SavepointOrder

__all__ = ["CancelRequested", "Request", "SavepointRequested", "StopRequested"]


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the job to take a last checkpoint and end, perhaps with a savepoint and event time at its end."""

    order: SavepointOrder | None = None
    drain: bool = False
    for_good: bool = False
    """Whether the next start begins anew, as after a cancellation."""


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """Somebody wants a savepoint of the job, which goes on."""

    order: SavepointOrder


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody wants the job to end at once."""


Request: TypeAlias = StopRequested | CancelRequested | SavepointRequested
