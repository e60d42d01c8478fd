"""How batches get from a subtask to the subtasks behind an exchange.

A channel is one direction between two subtasks. It holds a few batches at most: the receiver grants credit for each
batch it has worked off, and a sender without credit does not take new input.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from tidegate.elements import Batch, Control, Element
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.task.routing import router

__all__ = ["CREDIT", "Channel", "ChannelId", "Gate"]

CREDIT = 8
"""Batches that may be on the way in one channel."""


class ChannelId(msgspec.Struct, frozen=True, order=True):
    """From which subtask to which, over which edge."""

    edge: str
    source: int
    target: int


class Channel(Protocol):
    """The sending end."""

    credit: int

    def send(self, element: Element) -> None:
        """Hand over an element; batches cost a credit, control elements do not."""
        ...


class Gate:
    """All channels of one edge out of one subtask."""

    def __init__(self, edge: JobEdge, index: int, channels: dict[int, Channel]) -> None:
        self.edge = edge
        self._route = router(edge, index)
        self._channels = channels

    @property
    def open(self) -> bool:
        """Whether every receiver can take another batch."""
        return all(channel.credit > 0 for channel in self._channels.values())

    def emit(self, batch: Batch) -> None:
        """Deal a batch."""
        for target, share in self._route(batch):
            self._channels[target].send(share)

    def broadcast(self, element: Control) -> None:
        """Send a control element to every receiver, behind all batches sent so far."""
        for channel in self._channels.values():
            channel.send(element)
