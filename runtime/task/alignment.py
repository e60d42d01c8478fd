"""When a subtask with several inputs may snapshot and how far its time is: pure, driven by what arrives.

Example:
    >>> alignment = Alignment(["a", "b"])
    >>> alignment.on(BarrierArrived("a", 1))
    [Block(channel='a')]
    >>> alignment.on(BarrierArrived("b", 1))
    [TakeSnapshot(checkpoint=1), Unblock()]

Where its barriers are overtaken, a checkpoint does not wait for what is in front of them:
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
    """The barrier of a checkpoint had its turn: all that came before it on the channel is worked off."""

    channel: Hashable
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Announced:
    """The coordinator says that this checkpoint shall wait for nothing."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class BarrierSeen:
    """The barrier of a checkpoint came in on a channel, whatever still waits in front of it."""

    channel: Hashable
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Block:
    """Read no more from this channel until `Unblock`."""

    channel: Hashable


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """All that belongs to the checkpoint has been processed, and nothing that does not."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Overtake:
    """TakeSnapshot at once; what is in front of the barriers of these channels belongs to the checkpoint, too."""

    checkpoint: CheckpointId
    channels: frozenset[Hashable]


@dataclass(frozen=True, slots=True)
class Recorded:
    """All barriers of an overtaken checkpoint were seen; or it was given up, and nobody needs what was recorded."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Unblock:
    """Read all channels again."""


Event: TypeAlias = BarrierArrived | Announced | BarrierSeen
"""What can come to an alignment."""

Action: TypeAlias = Block | TakeSnapshot | Overtake | Recorded | Unblock
"""What an alignment asks for."""


class Alignment:
    """Finds the moment of a snapshot; there are three ways to it.

    *Exactly once*: a channel is held once its barrier came, until all others have theirs. *At least once*, without
    `blocking`: none is held, so the snapshot may know of records that will be read again. *Overtaking*: as soon as
    the checkpoint is announced and the barriers of all channels that are not `overtakable` have come.

    A barrier of a newer checkpoint gives the older one up: its trigger was aborted while barriers were on the way.
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
        """Channels on which the barrier of the checkpoint that is recorded is still to come."""

    def on(self, event: Event) -> list[Action]:
        """Take an event, say what to do."""
        if not isinstance(event, Announced) and event.channel not in self._channels:
            raise InternalError(f"barrier {event.checkpoint} came in on unknown channel {event.channel!r}")
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
        """The snapshot, if it is time."""
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

    def begin(self, timestamp: int) -> None:
        """Time is `timestamp` already, whatever the inputs say."""
        self._current = max(timestamp, self._current)

    @property
    def now(self) -> int:
        """How far time is."""
        return self._current

    def mark(self, channel: Hashable) -> tuple[int, bool]:
        """How far a channel is by itself, and whether it is idle."""
        return self._watermarks[channel], channel in self._idle

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
