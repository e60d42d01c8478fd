"""Event log of a run: the newest events in memory, all of them in a file if configured.

Example:
    >>> from tidegate.clock import ManualClock
    >>> log = EventLog(ManualClock(now_ms=1_000))
    >>> event = log.append("settled", "checkpoint 7", checkpoint=CheckpointId(7))
    >>> line_of(event, {"job": "orders"})
    b'{"at":"1970-01-01T00:00:01.000Z","job":"orders","what":"settled","text":"checkpoint 7","checkpoint":7}\\n'
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self, TypeAlias

import msgspec

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, Subtask

__all__ = ["EventFile", "EventLog", "EventType", "JobEvent", "line_of"]

EventType: TypeAlias = Literal[
    "state",
    "asked",
    "triggered",
    "acked",
    "declined",
    "decided",
    "committed",
    "retrying",
    "settled",
    "aborted",
    "failed",
    "lost",
    "restart",
    "regions",
    "said",
    "discovery-failed",
    "discovery-alarm",
    "discovery-recovered",
]

_KEPT: Final = 1_000


class JobEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event; it names the checkpoint or subtask that it concerns."""

    at_ms: int
    what: EventType
    text: str
    checkpoint: CheckpointId | None = None
    subtask: Subtask | None = None
    size: int | None = None
    """For a decided checkpoint: the bytes it refers to."""
    transactions: int | None = None
    """For a decided checkpoint: committables not yet committed."""
    sinks: dict[str, int] | None = None
    """The same by sink, for sinks that have any."""


class EventLog:
    """Takes events in the order in which they happen; owned by the thread that coordinates the run."""

    def __init__(self, clock: Clock, file: EventFile | None = None) -> None:
        self.count = 0
        """Number of occurrences."""
        self._clock = clock
        self._file = file
        self._kept: deque[JobEvent] = deque(maxlen=_KEPT)

    def append(
        self,
        what: EventType,
        text: str,
        *,
        checkpoint: CheckpointId | None = None,
        subtask: Subtask | None = None,
        size: int | None = None,
        sinks: dict[str, int] | None = None,
    ) -> JobEvent:
        """Append an event with the current time."""
        transactions = sum(sinks.values()) if sinks is not None else None
        event = JobEvent(self._clock.now_ms(), what, text, checkpoint, subtask, size, transactions, sinks)
        self.count += 1
        self._kept.append(event)
        if self._file is not None:
            self._file.write(event)
        return event

    def since(self, count: int) -> list[JobEvent]:
        """Events after the first `count`, as far as they are still in memory."""
        new = min(self.count - count, len(self._kept))
        return list(self._kept)[len(self._kept) - new :]

    def __iter__(self) -> Iterator[JobEvent]:
        return iter(self._kept)


class EventFile:
    """Appends each event to a file as one line of JSON that also says whose it is.

    If the file cannot be written, for example because its disk is full, the job continues and these events are lost.

    Raises:
        ConfigError: the file cannot be opened.
    """

    def __init__(self, path: str, whose: Mapping[str, str]) -> None:
        self._whose = whose
        try:
            self._file: BinaryIO = open(path, "ab", buffering=0, opener=_private)  # noqa: SIM115  # closed by `__exit__`
        except OSError as error:
            raise ConfigError(
                f"pipeline.event-log is {path!r}, which cannot be written: {error.strerror}; name another file"
            ) from error

    def write(self, event: JobEvent) -> None:
        """Append an event."""
        with contextlib.suppress(OSError):
            self._file.write(line_of(event, self._whose))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def line_of(event: JobEvent, whose: Mapping[str, str]) -> bytes:
    """An event as a line of JSON; a subtask is its operator's uid and its index."""
    fields: dict[str, Any] = {"at": _iso(event.at_ms), **whose, **msgspec.to_builtins(event)}
    del fields["at_ms"]
    if event.subtask is not None:
        fields["uid"], fields["subtask"] = event.subtask.vertex, event.subtask.index
    return msgspec.json.encode(fields) + b"\n"


def _private(path: str, flags: int) -> int:
    # Messages of errors quote records. A file that exists keeps its mode.
    return os.open(path, flags, 0o600)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
