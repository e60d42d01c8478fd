"""Exchange: channels and buffers between a subtask and the subtasks downstream.

A channel is one direction between two subtasks. It holds the records that the receiver processes in a fraction of a
second: the receiver grants credit for processed records, and a sender without credit does not read new input.

The overhead of a batch does not depend on its size. So with a buffer timeout, small batches wait in the sender until they
fill a buffer, until the timeout of the oldest one, or until a control element follows; control elements never wait.

Example:
    >>> from tidegate.clock import ManualClock
    >>> class Sent(list):
    ...     credit = Credit(1_000)
    ...     def send(self, element): self.append(element)
    >>> clock, sent = ManualClock(), Sent()
    >>> buffer = Buffer(sent, 100, clock)
    >>> buffer.send(Batch([1]))
    >>> buffer.send(Batch([2]))
    >>> sent, buffer.wait_s
    ([], 0.1)
    >>> buffer.flush()
    >>> [batch.values for batch in sent]
    [[1, 2]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from tidegate.clock import Clock
from tidegate.elements import Batch, Control, Element, concat
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.transformations import NEVER_MS
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.routing import router

__all__ = [
    "Buffer",
    "Channel",
    "ChannelId",
    "RecordWriter",
    "channels_into",
    "channels_out_of",
]


class ChannelId(msgspec.Struct, frozen=True, order=True):
    """The edge, the sending subtask and the receiving subtask."""

    edge: str
    source: int
    target: int


class Channel(Protocol):
    """The sending end of a channel."""

    @property
    def credit(self) -> Credit:
        """The credit granted by the receiver."""
        ...

    def send(self, element: Element) -> None:
        """Send an element; records use credit, control elements do not."""
        ...


class RecordWriter:
    """All channels of one outgoing edge of a subtask."""

    def __init__(self, edge: JobEdge, index: int, channels: Mapping[int, Channel]) -> None:
        self.edge = edge
        self._route = router(edge, index)
        self._channels = channels
        self._buffers = [channel for channel in channels.values() if isinstance(channel, Buffer)]

    @property
    def open(self) -> bool:
        """Whether every receiver has credit; feedback edges always count as having credit.

        Otherwise a full cycle would deadlock.
        """
        return self.edge.feedback or all(channel.credit.left for channel in self._channels.values())

    @property
    def settled(self) -> bool:
        """Whether the receivers have processed everything that was sent."""
        return all(channel.credit.used == 0 for channel in self._channels.values())

    @property
    def used(self) -> float:
        """The fraction of its credit that the fullest channel uses."""
        credits = (channel.credit for channel in self._channels.values())
        return max((min(1.0, credit.used / credit.limit) for credit in credits), default=0.0)

    def filled(self) -> float:
        """The fraction of its credit that the fullest channel was sent since the last call."""
        most = 0.0
        for channel in self._channels.values():
            credit = channel.credit
            most, credit.sent = max(most, credit.sent / credit.limit), 0
        return 0.0 if self.edge.feedback else most

    @property
    def wait_s(self) -> float | None:
        """Seconds until a buffer must be flushed; None if none is pending."""
        waits = (buffer.wait_s for buffer in self._buffers)
        return min((wait for wait in waits if wait is not None), default=None)

    def flush_due(self) -> None:
        """Flush the buffers whose timeout is over."""
        for buffer in self._buffers:
            wait_s = buffer.wait_s
            if wait_s is not None and wait_s <= 0:
                buffer.flush()

    def emit(self, batch: Batch) -> None:
        """Distribute a batch."""
        for target, share in self._route(batch):
            channel = self._channels[target]
            channel.credit.sent += len(share)
            channel.send(share)

    def broadcast(self, element: Control) -> None:
        """Send a control element to every receiver, behind all batches sent before."""
        for channel in self._channels.values():
            channel.send(element)

    def close(self) -> None:
        """Release resources; subclasses with open files close them."""


class Buffer:
    """A channel that collects batches and sends them together."""

    def __init__(self, channel: Channel, timeout_ms: int, clock: Clock) -> None:
        self._due: float | None = None
        """When the buffer must be flushed, on the monotonic clock."""
        self._channel = channel
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._held: list[Batch] = []
        self._records = 0

    @property
    def credit(self) -> Credit:
        """The credit granted by the receiver."""
        return self._channel.credit

    @property
    def wait_s(self) -> float | None:
        """Seconds until the buffer must be flushed; None if it is empty."""
        return None if self._due is None else self._due - self._clock.monotonic()

    def send(self, element: Element) -> None:
        """Buffer a batch; a control element is sent at once, after flushing the buffer."""
        if not isinstance(element, Batch):
            self.flush()
            self._channel.send(element)
            return
        if not self._held and self._timeout_ms != NEVER_MS:
            self._due = self._clock.monotonic() + self._timeout_ms / 1_000
        self._held.append(element)
        self._records += len(element)
        if self._records >= self._channel.credit.full:
            self.flush()

    def flush(self) -> None:
        """Send the buffered batches, merged where their columns are the same."""
        held, self._held, self._records, self._due = self._held, [], 0, None
        for batch in concat(held):
            self._channel.send(batch)


def channels_out_of(vertex: JobVertex, index: int) -> dict[str, list[ChannelId]]:
    """The channels of each outgoing edge of a subtask."""
    return {
        edge.name: [ChannelId(edge.name, index, target) for target in edge.reached_from(index)]
        for edge in vertex.outputs
    }


def channels_into(vertex: JobVertex, index: int) -> list[ChannelId]:
    """The input channels of a subtask."""
    return [ChannelId(edge.name, source, index) for edge in vertex.inputs for source in edge.reaching(index)]
