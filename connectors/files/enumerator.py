"""Finds the files of a source and cuts them into parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tidegate.connectors.base import ListEnumerator
from tidegate.connectors.files.reading import OUT_OF_REACH, FileFormat
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import EnumeratorContext, Remaining, SplitEnumerator
from tidegate.errors import ConfigError, RecordError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId, SplitId

__all__ = ["FileEnumerator", "Files", "WatchingEnumerator", "remaining_splits"]

_END: Final = 2**63 - 1


class Files:
    """The files below some paths, but none whose name, or a folder's on the way, begins with `.` or `_`."""

    def __init__(
        self, paths: Sequence[Path], file_format: FileFormat, part_bytes: int, *, strict: bool = True
    ) -> None:
        self._paths = paths
        self._format = file_format
        self._part_bytes = part_bytes
        self._strict = strict

    def names(self) -> list[str]:
        """Every file that is there now, in order.

        Raises:
            ConfigError: there is nothing at a path.
        """
        return [str(file) for path in self._paths for file in _below(path)]

    def parts(self, name: str) -> list[FileSplit]:
        """A file in parts; one that cannot be read is one part, unless that is an error: its reader says what is wrong.

        Raises:
            RecordError: it is not of the format.
            UnavailableError: it cannot be read.
        """
        try:
            return self._format.parts(name, self._part_bytes)
        except (RecordError, OSError) as error:
            if not self._strict and isinstance(error, (RecordError, *OUT_OF_REACH)):
                return [FileSplit(SplitId(f"{name}:0"), name, 0, _END)]
            if isinstance(error, RecordError):
                raise
            raise UnavailableError(f"file {name} cannot be read: {error}") from error

    def changed_ms(self, name: str) -> int:
        """When a file was changed last.

        Raises:
            UnavailableError: it cannot be looked at.
        """
        try:
            return Path(name).stat().st_mtime_ns // 1_000_000
        except OSError as error:
            if not self._strict and isinstance(error, OUT_OF_REACH):
                return 0
            raise UnavailableError(f"file {name} cannot be looked at: {error}") from error


class FileEnumerator(ListEnumerator[FileSplit]):
    """Looks once, at the first start: what is added or appended later is not read.

    It ends where the newest file was changed last, in milliseconds.
    """

    def __init__(self, context: EnumeratorContext[FileSplit], files: Files, restored: bytes | None) -> None:
        super().__init__(context, (), FileSplit, restored)
        self._files = files
        self._restored = restored is not None

    def start(self) -> None:
        """List the files, unless a checkpoint did."""
        if not self._restored:
            names = self._files.names()
            self.give_back([part for name in names for part in self._files.parts(name)])
            self._end = max(map(self._files.changed_ms, names), default=None)


class _State(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    seen: list[str]
    pending: list[FileSplit]


class WatchingEnumerator(SplitEnumerator[FileSplit]):
    """Looks again and again; a file is read once, as it was when it was first seen.

    Args:
        context: How to reach the readers.
        files: Where to look.
        interval_ms: How often.
        restored: The snapshot of an earlier enumerator.

    Raises:
        StateFormatError: the snapshot was written by another version.
    """

    def __init__(
        self,
        context: EnumeratorContext[FileSplit],
        files: Files,
        interval_ms: int,
        restored: bytes | None,
    ) -> None:
        before = _State([], []) if restored is None else _decode(restored)
        self.discovery_interval_ms: int | None = interval_ms
        self._context = context
        self._files = files
        self._seen = set(before.seen)
        self._pending = deque(before.pending)
        self._waiting: dict[int, None] = {}

    def start(self) -> None:
        """Look for the first time."""
        self.discovered(self.discover())

    def discover(self) -> dict[str, list[FileSplit]]:
        """Files that were not seen yet, in parts."""
        seen = self._seen
        return {name: self._files.parts(name) for name in self._files.names() if name not in seen}

    def discovered(self, found: dict[str, list[FileSplit]]) -> None:
        """Deal what is new to whoever waits."""
        for name, splits in found.items():
            # Two looks may have begun before either was taken in.
            if name not in self._seen:
                self._pending.extend(splits)
        self._seen = self._seen | found.keys()
        self._deal()

    def request(self, reader: int) -> None:
        """Give the reader a part, now or when there is one."""
        self._waiting[reader] = None
        self._deal()

    def give_back(self, splits: Sequence[FileSplit]) -> None:
        """Take parts back, to be dealt first, to readers that ask again."""
        self._waiting.clear()
        self._pending.extendleft(reversed(splits))

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """The files that were seen, and the parts that nobody has."""
        return msgspec.msgpack.encode(_State(sorted(self._seen), list(self._pending)))

    def pending(self) -> list[SplitId]:
        """The parts that nobody has."""
        return [split.id for split in self._pending]

    def _deal(self) -> None:
        while self._pending and self._waiting:
            reader = next(iter(self._waiting))
            del self._waiting[reader]
            self._context.assign(reader, [self._pending.popleft()])


def remaining_splits(remaining: Remaining) -> tuple[list[FileSplit], frozenset[str] | None]:
    """What a checkpoint says is left, and which files it has seen if it says that: who does not watch has seen all.

    Raises:
        StateFormatError: it is not a checkpoint of a file source, or of another version.
    """
    try:
        held = [msgspec.msgpack.decode(split, type=FileSplit) for split in remaining.splits]
        state = msgspec.msgpack.decode(remaining.coordinator)
        waiting = msgspec.convert(state["pending" if "seen" in state else "splits"], list[FileSplit])
    except (msgspec.MsgspecError, LookupError, TypeError) as error:
        raise StateFormatError(
            f"the checkpoint is not one of a file source ({error}); say which source by its uid"
        ) from error
    return [*held, *waiting], frozenset(state["seen"]) if "seen" in state else None


def _decode(data: bytes) -> _State:
    try:
        return msgspec.msgpack.decode(data, type=_State)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"the state of a watched directory cannot be read ({error}); expected version 1; restore an older "
            "checkpoint or run the version that wrote it"
        ) from error


def _below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ConfigError(f"file {str(path)!r} does not exist; expected a file or a directory")
    found: list[Path] = []
    for each in sorted(path.iterdir()):
        if each.name.startswith((".", "_")):
            continue
        if each.is_dir():
            found += _below(each)
        elif each.is_file():
            found.append(each)
    return found
