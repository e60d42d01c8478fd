"""Commit of a prepared transaction over the Kafka protocol: a state machine that determines its outcome.

Pure: events in, one action out, no I/O and no clock. An error code of the broker alone decides nothing: the same code
answers a commit of an expired transaction and a commit that another process completed earlier. What decides is the *marker*,
an offset with a note that every transaction writes along with its records under a group of its id: once no transaction
of the id is open, the marker is there exactly if the transaction was committed.

Example:
    >>> mine = Marker("1f", 0, 7, "a")
    >>> machine = Resolution(mine)
    >>> machine.start(), machine.on(MarkerSeen(None)), machine.on(Ended(48)), machine.on(StateSeen("closed"))
    (ReadMarker(), End(), LookAtState(), ReadMarker())
    >>> machine.on(MarkerSeen(Marker("1f", 0, 6, "a")))
    Conclude(answer=<CommitAnswer.ABORTED: 'aborted'>)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from tidegate.twophase.spi import Answer, CommitAnswer, Retry

__all__ = [
    "Action",
    "Conclude",
    "End",
    "Ended",
    "Event",
    "LookAtState",
    "Marker",
    "MarkerSeen",
    "ReadMarker",
    "Resolution",
    "StateSeen",
]

OK: Final = 0
LATER: Final = {
    7: "it timed out",
    14: "the coordinator is loading",
    15: "the coordinator is not available",
    16: "the coordinator has moved",
    51: "another change of the transaction is in progress",
}
"""Codes of the coordinator that say nothing of the transaction."""


class Marker(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """Which epoch a transaction held: of which history, and written by which attempt."""

    lineage: str
    branch: int
    checkpoint: int
    attempt: str


@dataclass(frozen=True, slots=True)
class MarkerSeen:
    """The marker of the id, as committed; None if there is none."""

    marker: Marker | None


@dataclass(frozen=True, slots=True)
class Ended:
    """What the coordinator answered to the commit."""

    code: int


@dataclass(frozen=True, slots=True)
class StateSeen:
    """Whether our transaction is still being ended, the id has none of ours, or the id is unknown."""

    state: Literal["ending", "closed", "unknown"]


@dataclass(frozen=True, slots=True)
class ReadMarker:
    """Read the marker of the id."""


@dataclass(frozen=True, slots=True)
class End:
    """Tell the coordinator to commit."""


@dataclass(frozen=True, slots=True)
class LookAtState:
    """Ask how the id is, a moment later if asked again."""


@dataclass(frozen=True, slots=True)
class Conclude:
    """Done."""

    answer: Answer


Event: TypeAlias = MarkerSeen | Ended | StateSeen
Action: TypeAlias = ReadMarker | End | LookAtState | Conclude


class Resolution:
    """Commits one transaction, or finds out why not.

    Args:
        mine: The marker it wrote.
        old: Whether it was prepared so long ago that the broker may have dropped its marker.
    """

    def __init__(self, mine: Marker, *, old: bool = False) -> None:
        self._mine = mine
        self._old = old
        self._ended: int | None = None
        self._known = True

    def start(self) -> Action:
        """The first step: it may be committed already, and a repeated commit cannot tell."""
        return ReadMarker()

    def on(self, event: Event) -> Action:
        """The next step now that `event` happened."""
        match event:
            case MarkerSeen():
                return self._marker(event.marker)
            case Ended():
                self._ended = event.code
                if event.code in LATER:
                    return Conclude(
                        Retry(f"the coordinator did not commit (error {event.code}): {LATER[event.code]}")
                    )
                return LookAtState()
            case StateSeen():
                return self._state(event.state)

    def _marker(self, marker: Marker | None) -> Action:
        if marker == self._mine:
            return Conclude(CommitAnswer.ALREADY_COMMITTED)
        if self._ended is None:
            return End()
        return Conclude(self._without(marker))

    def _state(self, state: Literal["ending", "closed", "unknown"]) -> Action:
        if state == "ending":
            return LookAtState()
        if self._ended == OK:
            return Conclude(CommitAnswer.COMMITTED)
        self._known = state == "closed"
        return ReadMarker()

    def _without(self, marker: Marker | None) -> CommitAnswer:
        """The outcome if no transaction of ours is open and the marker is not ours."""
        if marker is None and (self._old or not self._known):
            return CommitAnswer.UNKNOWN
        mine = self._mine
        if (
            marker is not None
            and (marker.lineage, marker.branch) == (mine.lineage, mine.branch)
            and marker.checkpoint > mine.checkpoint
        ):
            # The id was used again, which overwrote what could have told.
            return CommitAnswer.UNKNOWN
        return CommitAnswer.ABORTED
