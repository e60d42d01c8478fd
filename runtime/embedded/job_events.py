"""Translates messages of the coordinating thread into events of the run."""

from __future__ import annotations

from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.embedded.cluster import WorkerLost
from tidegate.runtime.requests import CancelRequested, SavepointRequested, StopRequested
from tidegate.runtime.schedule.slots import task_manager_name
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task import messages

__all__ = ["log_event"]


def log_event(status: RunStatus, message: object) -> None:
    """Log commands, checkpoint events before the decision, failures and lost workers; other messages are ignored."""
    note = status.note
    match message:
        case cp.Trigger(checkpoint):
            note("triggered", f"checkpoint {checkpoint}", checkpoint=checkpoint)
        case cp.Abort(checkpoint, reason):
            note("aborted", f"checkpoint {checkpoint}: {reason}", checkpoint=checkpoint)
        case cp.Ack(subtask, checkpoint):
            note("acked", f"checkpoint {checkpoint}", checkpoint=checkpoint, subtask=subtask)
        case cp.Decline(subtask, checkpoint, error):
            note("declined", f"checkpoint {checkpoint}: {error}", checkpoint=checkpoint, subtask=subtask)
        case messages.Failed():
            note("failed", str(message.error), subtask=message.subtask)
        case WorkerLost():
            note("lost", f"{task_manager_name(message.worker)} ended ({message.how})")
        case StopRequested() | SavepointRequested() | CancelRequested():
            note("asked", message.words)
