"""Trace texts of the simulation: the coordinator's events and actions.

Example:
    >>> trace_line(cp.Abort(CheckpointId(3), "no space left"))
    'abort 3: no space left'
"""

from __future__ import annotations

import re

from tidegate.ids import CheckpointId
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.twophase.spi import Retry

__all__ = ["trace_line"]

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def trace_line(said: cp.Event | cp.Action) -> str | None:
    """One line; None for what happens all the time."""
    if isinstance(said, cp.Tick) or said == cp.Release():
        return None
    name = _CAPITAL.sub(" ", type(said).__name__).lower()
    number: CheckpointId | None = getattr(said, "checkpoint", None)
    detail = _detail(said)
    return f"{name}{f' {number}' if number is not None else ''}{f': {detail}' if detail else ''}"


def _detail(said: cp.Event | cp.Action) -> str:
    match said:
        case cp.Ack():
            return str(said.subtask)
        case cp.Decline():
            return f"{said.subtask}, {said.error}"
        case cp.Abort() | cp.Pause():
            return said.reason
        case cp.SavepointFailed():
            return f"{said.place}, {said.reason}"
        case cp.SavepointWanted() | cp.SavepointOver() | cp.WriteSavepoint():
            return said.place
        case cp.Commit():
            return ", ".join(work.describe for work in said.committables)
        case cp.Answered():
            return ", ".join(
                f"{work.describe} {'retry' if isinstance(answer, Retry) else answer.name.lower()}"
                for work, answer in said.answers
            )
        case cp.Trigger() | cp.Announce():
            return f"after {said.confirmed or 'nothing'}"
        case cp.Release():
            return f"checkpoints {', '.join(map(str, said.checkpoints))} and {len(said.files)} files"
        case cp.MetadataFailed() | cp.FailJob():
            return str(said.error)
        case _:
            return ""
