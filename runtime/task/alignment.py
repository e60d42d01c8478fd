"""Barrier alignment and watermarks of a subtask with several inputs: pure state machines, driven by arriving elements.

Example:
    >>> alignment = Alignment(["a", "b"])
    >>> alignment.on(BarrierArrived("a", 1))
    [Block(channel='a')]
    >>> alignment.on(BarrierArrived("b", 1))
    [TakeSnapshot(checkpoint=1), Unblock()]

In an unaligned checkpoint, barriers overtake the records in front of them:
    >>> alignment = Alignment(["a", "b"], overtakable=["a", "b"])
    >>> alignment.on(Announced(1))
    [Overtake(checkpoint=1, channels=frozenset({...}))]
    >>> alignment.on(BarrierSeen("b", 1)), alignment.on(BarrierSeen("a", 1))
    ([], [Recorded(checkpoint=1)])
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.errors import InternalError
from tidegate.ids import CheckpointId

__all__ = [
    "Action",
    "Alignment",
    "Announced",
    "BarrierArrived",
    "BarrierSeen",
    "Block",
    "Event",
    "Inputs",
    "Overtake",
    "Recorded",
    "TakeSnapshot",
    "Unblock",
]


@dataclass(frozen=True, slots=True)
class BarrierArrived:
    """The barrier of a checkpoint is processed: all records in front of it on the channel are processed."""

    channel: Hashable
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Announced:
    """The coordinator announces an unaligned checkpoint."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class BarrierSeen:
    """The barrier of a checkpoint arrived on a channel; records in front of it may still be queued."""

    channel: Hashable
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Block:
    """Read no more from this channel until `Unblock`."""

    channel: Hashable


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Take the snapshot: exactly the records that belong to the checkpoint have been processed."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Overtake:
    """Take the snapshot at once; queued records in front of the barriers of these channels are part of the checkpoint."""

    checkpoint: CheckpointId
    channels: frozenset[Hashable]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Stop recording: all barriers of an unaligned checkpoint have arrived, or it was aborted and its records are dropped."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Unblock:
    """Read all channels again."""


Event: TypeAlias = BarrierArrived | Announced | BarrierSeen
"""The events of an alignment."""

Action: TypeAlias = Block | TakeSnapshot | Overtake | Recorded | Unblock
"""The actions of an alignment."""


class Alignment:
    """Decides when to take a snapshot, in one of three modes.

    *Exactly once*: a channel is blocked after its barrier until all other channels have theirs. *At least once*, without
    `blocking`: no channel is blocked, so the snapshot may include records that will be read again. *Unaligned*: as soon
    as the checkpoint is announced and the barriers of all channels that are not `overtakable` have arrived.

    A barrier of a newer checkpoint aborts the older one: it was aborted while its barriers were in flight.
    """

    def __init__(
        self,
        channels: Iterable[Hashable],
        *,
        blocking: bool = True,
        overtakable: Collection[Hashable] = (),
    ) -> None:
        self._channels = frozenset(channels)
        self._kept = self._channels.difference(overtakable)
        self._blocking = blocking
        self._awaited = 0
        self._arrived: set[Hashable] = set()
        self._announced = False
        self._recording: CheckpointId | None = None
        self._unseen: set[Hashable] = set()
        """Channels on which the barrier of the recorded checkpoint has not arrived yet."""

    def on(self, event: Event) -> list[Action]:
        """Handle an event; returns the actions."""
        if not isinstance(event, Announced) and event.channel not in self._channels:
            raise InternalError(f"barrier {event.checkpoint} arrived on unknown channel {event.channel!r}")
        if isinstance(event, BarrierSeen):
            return self._saw(event)
        if event.checkpoint < self._awaited:
            return []
        actions = self._give_up_older(event.checkpoint)
        if isinstance(event, Announced):
            self._announced = True
            return actions + self._complete()
        self._arrived.add(event.channel)
        held: list[Action] = [Block(event.channel)] if self._blocking else []
        return actions + (self._complete() or held)

    def _give_up_older(self, checkpoint: CheckpointId) -> list[Action]:
        given_up: list[Action] = []
        if self._recording is not None:
            given_up += self._over(self._recording)
        if checkpoint > self._awaited:
            if self._arrived and self._blocking:
                given_up.append(Unblock())
            self._arrived, self._announced, self._awaited = set(), False, checkpoint
        return given_up

    def _complete(self) -> list[Action]:
        """The actions of a snapshot, if the alignment is complete."""
        checkpoint, left = CheckpointId(self._awaited), self._channels - self._arrived
        if left and not (self._announced and self._kept <= self._arrived):
            return []
        actions: list[Action] = [Overtake(checkpoint, left) if left else TakeSnapshot(checkpoint)]
        if self._arrived and self._blocking and len(self._channels) > 1:
            actions.append(Unblock())
        self._arrived, self._announced, self._awaited = set(), False, checkpoint + 1
        self._recording, self._unseen = (checkpoint, set(left)) if left else (None, set())
        return actions

    def _saw(self, event: BarrierSeen) -> list[Action]:
        if self._recording is None or event.checkpoint < self._recording:
            return []
        self._unseen.discard(event.channel)
        return [] if self._unseen else self._over(self._recording)

    def _over(self, checkpoint: CheckpointId) -> list[Action]:
        self._recording = None
        return [Recorded(checkpoint)]


class Inputs:
    """The combined watermark of several inputs: the minimum over those that are neither idle nor at their end.

    While all remaining inputs are idle, the watermark does not advance, because they may become active again.

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
        """Set the watermark of an input; returns the new minimum if it changed, else None."""
        self._watermarks[channel] = max(timestamp, self._watermarks[channel])
        return self._advance()

    def begin(self, timestamp: int) -> None:
        """Start with a restored watermark, which the inputs cannot set back."""
        self._current = max(timestamp, self._current)

    @property
    def now(self) -> int:
        """The current watermark."""
        return self._current

    def mark(self, channel: Hashable) -> tuple[int, bool]:
        """The watermark of one channel, and whether it is idle."""
        return self._watermarks[channel], channel in self._idle

    def idle(self, channel: Hashable, idle: bool) -> int | None:
        """Exclude an idle channel from the minimum, or include it again; returns the new minimum if it changed."""
        (self._idle.add if idle else self._idle.discard)(channel)
        return self._advance()

    @property
    def all_idle(self) -> bool:
        """Whether every input that is not at its end is idle."""
        unfinished = {channel for channel, mark in self._watermarks.items() if mark < MAX_WATERMARK}
        return bool(unfinished) and unfinished <= self._idle

    def end(self, channel: Hashable) -> bool:
        """Mark a channel as ended; returns whether all have ended."""
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
