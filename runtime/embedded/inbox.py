"""Inbox of a worker: one queue for all messages, in order."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.ids import Subtask
from tidegate.runtime.embedded.peer_messages import Granted
from tidegate.runtime.task.frames import Frame
from tidegate.runtime.task.messages import ToSubtask

__all__ = ["Inbox", "Post", "Shutdown", "Wake"]


@dataclass(frozen=True, slots=True)
class Post:
    """A message of the coordinator to one subtask."""

    subtask: Subtask
    message: ToSubtask


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Close everything and end."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Look for work: something has come for a subtask by another way than the inbox."""


Inbox: TypeAlias = queue.SimpleQueue[Post | Shutdown | Frame | Granted | Wake]
