"""When a subtask with several inputs may snapshot and how far its time is: pure, driven by what arrives.

Example:
    >>> alignment = Alignment(["a", "b"])
    >>> alignment.on(BarrierArrived("a", 1))
    [Block(channel='a')]
    >>> alignment.on(BarrierArrived("b", 1))
    [Snapshot(checkpoint=1), Unblock()]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.errors import InternalError
from tidegate.ids import CheckpointId

__all__ = ["Alignment", "BarrierArrived", "Block", "Inputs", "Snapshot", "Unblock"]


@dataclass(frozen=True, slots=True)
class BarrierArrived:
    """The barrier of a checkpoint came in on a channel."""

    channel: Hashable
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Block:
    """Read no more from this channel until `Unblock`."""

    channel: Hashable


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that belongs to the checkpoint has been processed, and nothing that does not."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Unblock:
    """Read all channels again."""


class Alignment:
    """Exactly-once alignment: a channel is held once its barrier came, until all others have theirs.

    A barrier of a newer checkpoint gives the older one up: its trigger was aborted while barriers were on the way.
    """

    def __init__(self, channels: Iterable[Hashable]) -> None:
        self._channels = frozenset(channels)
        self._awaited = 0
        self._arrived: set[Hashable] = set()

    def on(self, event: BarrierArrived) -> list[Block | Snapshot | Unblock]:
        """Take an arrival, say what to do."""
        if event.channel not in self._channels:
            raise InternalError(f"barrier {event.checkpoint} came in on unknown channel {event.channel!r}")
        actions: list[Block | Snapshot | Unblock] = []
        if event.checkpoint < self._awaited:
            return actions
        if event.checkpoint > self._awaited:
            if self._arrived:
                actions.append(Unblock())
            self._arrived = set()
            self._awaited = event.checkpoint
        self._arrived.add(event.channel)
        if self._arrived != self._channels:
            return [*actions, Block(event.channel)]
        self._arrived = set()
        self._awaited = event.checkpoint + 1
        return [*actions, Snapshot(event.checkpoint), *([Unblock()] if len(self._channels) > 1 else [])]


class Inputs:
    """Event time over several inputs: the minimum over those that are neither idle nor at their end.

    While all that are not at their end are idle, time stands: they may come back.

    Example:
        >>> inputs = Inputs(["a", "b"])
        >>> inputs.watermark("a", 10)
        >>> inputs.watermark("b", 7)
        7
    """

    def __init__(self, channels: Iterable[Hashable]) -> None:
        self._watermarks: dict[Hashable, int] = dict.fromkeys(channels, MIN_WATERMARK)
        self._idle: set[Hashable] = set()
        self._open = set(self._watermarks)
        self._current = MIN_WATERMARK

    def watermark(self, channel: Hashable, timestamp: int) -> int | None:
        """The new minimum if it moved, else None."""
        self._watermarks[channel] = max(timestamp, self._watermarks[channel])
        return self._advance()

    def idle(self, channel: Hashable, idle: bool) -> int | None:
        """Leave a channel out of the minimum, or take it in again."""
        (self._idle.add if idle else self._idle.discard)(channel)
        return self._advance()

    @property
    def all_idle(self) -> bool:
        """Whether every input that may still send is idle."""
        unfinished = {channel for channel, mark in self._watermarks.items() if mark < MAX_WATERMARK}
        return bool(unfinished) and unfinished <= self._idle

    def end(self, channel: Hashable) -> bool:
        """A channel is at its end; True when it was the last."""
        self._open.discard(channel)
        return not self._open

    def _advance(self) -> int | None:
        unfinished = [channel for channel, mark in self._watermarks.items() if mark < MAX_WATERMARK]
        counted = [self._watermarks[channel] for channel in unfinished if channel not in self._idle]
        lowest = min(counted, default=self._current) if unfinished else MAX_WATERMARK
        if lowest <= self._current:
            return None
        self._current = lowest
        return lowest
