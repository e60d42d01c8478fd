"""Change journal of keyed state: every change and its cause, kept until a checkpoint that contains it is decided.

A log has the last value of an address in an epoch; a journal, if enabled, has every change. It is written
as a segment of its own that no restore reads: each group of entries that were made at once follows an entry without
an address, which holds their cause.

Changes cannot be merged as the entries of a log can: each one counts. While checkpoints are declined, those of the
declined ones are therefore kept up to a limit. Beyond it all changes since the newest decided checkpoint are dropped,
and the next checkpoint that is decided has their number in place of a journal.

Example:
    >>> journal = Journal()
    >>> journal.append({b"a": b"1"}, RecordOrigin("orders", "part-0", 7))
    >>> told = journal.take(CheckpointId(1), None, limit=1_000)
    >>> [(cause, dict(entries)) for cause, entries in groups_of(told.entries)]
    [(RecordOrigin(source='orders', split='part-0', position=7), {b'a': b'1'})]
    >>> journal.take(CheckpointId(2), CheckpointId(1), limit=1_000)
    Told(entries=[], dropped=0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from tidegate.backends.spi import Address, Entry
from tidegate.elements import RecordOrigin
from tidegate.ids import CheckpointId

__all__ = ["Cause", "Journal", "TimersDue", "Told", "groups_of"]


class TimersDue(msgspec.Struct, frozen=True, array_like=True, tag="timers"):
    """The timers of a service that were due by a moment."""

    service: str
    until: int


Cause: TypeAlias = RecordOrigin | TimersDue
"""What changed state, if that is known: nothing is where values expire, or where a record has no known origin."""

_NOWHERE: Final = b""


class Told(NamedTuple):
    """What a journal holds since a checkpoint: every change, or the number of changes that were dropped."""

    entries: list[Entry]
    dropped: int


class Journal:
    """Groups of entries by epoch, in the order in which they were made."""

    def __init__(self) -> None:
        self._closed: dict[CheckpointId, list[Entry]] = {}
        self._open: list[Entry] = []
        self._dropped: tuple[CheckpointId, int] | None = None
        """The newest checkpoint whose changes were dropped, and their number."""

    def append(self, entries: Mapping[Address, bytes | None], cause: Cause | None) -> None:
        """Note a group of entries."""
        self._open.append((_NOWHERE, _ENCODER.encode(cause)))
        self._open.extend(entries.items())

    def take(self, checkpoint: CheckpointId, confirmed: CheckpointId | None, limit: int) -> Told:
        """Close the epoch; everything since the newest decided checkpoint, or since the start.

        What checkpoints after `confirmed` hold, which will never be decided, is kept up to `limit` bytes.
        """
        for number in [number for number in self._closed if confirmed is not None and number <= confirmed]:
            del self._closed[number]
        if self._dropped is not None and confirmed is not None and self._dropped[0] <= confirmed:
            self._dropped = None
        if self._dropped is not None or sum(map(_size_of, self._closed.values())) > limit:
            dropped = self._dropped[1] if self._dropped is not None else 0
            dropped += sum(
                at != _NOWHERE for entries in (*self._closed.values(), self._open) for at, _ in entries
            )
            self._closed, self._open, self._dropped = {}, [], (checkpoint, dropped)
            return Told([], dropped)
        self._closed[checkpoint], self._open = self._open, []
        return Told([entry for entries in self._closed.values() for entry in entries], 0)

    @property
    def kept_bytes(self) -> int:
        """The bytes of everything that is kept."""
        return sum(map(_size_of, (*self._closed.values(), self._open)))


def groups_of(entries: Iterable[Entry]) -> Iterator[tuple[Cause | None, list[Entry]]]:
    """What a journal was given, in order."""
    cause: Cause | None = None
    group: list[Entry] = []
    for at, data in entries:
        if at != _NOWHERE:
            group.append((at, data))
            continue
        if group:
            yield cause, group
        cause, group = _DECODER.decode(data or b"\xc0"), []
    if group:
        yield cause, group


def _size_of(entries: Iterable[Entry]) -> int:
    return sum(len(at) + len(data or b"") for at, data in entries)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(RecordOrigin | TimersDue | None)
