"""Enumerator of the file source: finds files and cuts them into splits."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.connectors.base import ListEnumerator
from tidegate.connectors.files.reading import OUT_OF_REACH, FileFormat, forbidden
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import EnumeratorContext, Remaining, SplitEnumerator
from tidegate.errors import ConfigError, RecordError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId, SplitId

__all__ = ["FileEnumerator", "Files", "Look", "WatchingEnumerator", "remaining_splits"]

_END: Final = 2**63 - 1


class Files:
    """The files below some paths, but none whose name, or a folder's on the way, begins with `.` or `_`.

    Each real directory is visited once, for any number of links to it. With `strict`, a file or folder that may not be read is
    an error.
    """

    def __init__(
        self, paths: Sequence[Path], file_format: FileFormat, part_bytes: int, *, strict: bool = True
    ) -> None:
        self._paths = paths
        self._format = file_format
        self._part_bytes = part_bytes
        self._strict = strict

    def look(self) -> tuple[list[str], list[str]]:
        """Every file that is there now, in order, and the folders that may not be listed.

        Raises:
            ConfigError: there is nothing at a path, or a folder may not be listed and that is an error.
            UnavailableError: a folder cannot be listed now.
        """
        walk = _Walk()
        try:
            names = [str(file) for path in self._paths for file in walk.below(path)]
        except OSError as error:
            raise UnavailableError(f"a folder cannot be listed: {error}") from error
        if walk.forbidden and self._strict:
            raise forbidden(walk.forbidden[0])
        return names, walk.forbidden

    def may_read(self, name: str) -> bool:
        """Whether there is the right to read a file.

        Raises:
            ConfigError: there is none, and that is an error.
        """
        if os.access(name, os.R_OK):
            return True
        with contextlib.suppress(PermissionError):
            if not Path(name).exists():
                return True
        if self._strict:
            raise forbidden(name)
        return False

    def parts(self, name: str) -> list[FileSplit]:
        """A file in parts; one that cannot be read is one part, unless that is an error: its reader says what is wrong.

        Raises:
            ConfigError: permission to read it is denied.
            RecordError: it is not of the format.
            UnavailableError: it cannot be read.
        """
        if self._strict:
            self.may_read(name)
        try:
            return self._format.parts(name, self._part_bytes)
        except (RecordError, OSError) as error:
            if not self._strict and isinstance(error, (RecordError, *OUT_OF_REACH)):
                return [_whole(name)]
            if isinstance(error, RecordError):
                raise
            raise _failure(name, "read", error) from error

    def changed_ms(self, name: str) -> int:
        """When a file was changed last.

        Raises:
            ConfigError: permission to access it is denied.
            UnavailableError: it cannot be looked at.
        """
        try:
            return Path(name).stat().st_mtime_ns // 1_000_000
        except OSError as error:
            if not self._strict and isinstance(error, OUT_OF_REACH):
                return 0
            raise _failure(name, "looked at", error) from error


class FileEnumerator(ListEnumerator[FileSplit]):
    """Lists files once, at the first start; files added or extended later are not read.

    It ends where the newest file was changed last, in milliseconds.
    """

    def __init__(self, context: EnumeratorContext[FileSplit], files: Files, restored: bytes | None) -> None:
        super().__init__(context, (), FileSplit, restored)
        self._files = files
        self._restored = restored is not None

    def start(self) -> None:
        """List the files, unless a checkpoint did."""
        if not self._restored:
            names, refused = self._files.look()
            self.give_back([part for name in names for part in self._files.parts(name)])
            # Who reads a folder that may not be listed counts it among what cannot be read.
            self.give_back([_whole(name) for name in refused])
            self._end = max(map(self._files.changed_ms, names), default=None)


class _State(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    seen: list[str]
    pending: list[FileSplit]


class Look(NamedTuple):
    """The parts of files that are new, and the files and folders that may not be read."""

    parts: dict[str, list[FileSplit]]
    refused: list[str]


class WatchingEnumerator(SplitEnumerator[FileSplit]):
    """Lists files periodically; a file is read once, with its content at its discovery.

    What may not be read is left out, and tried again by each look.

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
        self._refused: list[str] = []

    def start(self) -> None:
        """Look for the first time."""
        self.discovered(self.discover())

    def discover(self) -> Look:
        """Newly discovered files, as splits."""
        seen = self._seen
        names, refused = self._files.look()
        new = [name for name in names if name not in seen]
        readable = [name for name in new if self._files.may_read(name)]
        refused += [name for name in new if name not in set(readable)]
        return Look({name: self._files.parts(name) for name in readable}, refused)

    def discovered(self, found: Look) -> None:
        """Assign new splits to waiting readers."""
        self._refused = found.refused
        for name, splits in found.parts.items():
            # Two looks may have begun before either was taken in.
            if name not in self._seen:
                self._pending.extend(splits)
        self._seen = self._seen | found.parts.keys()
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
        """The discovered files, and the unassigned splits."""
        return msgspec.msgpack.encode(_State(sorted(self._seen), list(self._pending)))

    def left_out(self) -> list[str]:
        """What the newest look found and may not read."""
        return self._refused

    def pending(self) -> list[SplitId]:
        """The unassigned splits."""
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
            f"the checkpoint does not contain the state of a file source ({error}); name the source by its uid"
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


def _whole(name: str) -> FileSplit:
    return FileSplit(SplitId(f"{name}:0"), name, 0, _END)


def _failure(name: str, verb: str, error: OSError) -> ConfigError | UnavailableError:
    if isinstance(error, PermissionError):
        return forbidden(name)
    return UnavailableError(f"file {name} cannot be {verb}: {error}")


class _Walk:
    """Lists what is below paths; a directory that is reachable by several paths is visited once."""

    def __init__(self) -> None:
        self.forbidden: list[str] = []
        """Folders that may not be listed."""
        self._visited: set[tuple[int, int]] = set()

    def below(self, path: Path) -> list[Path]:
        """The files at or below a path, in order."""
        found: list[Path] = []
        # Links come last, so that a directory is visited by its own name where it has one here.
        links: deque[Path] = deque()
        try:
            if path.is_file():
                return [path]
            there = path.is_dir()
        except PermissionError:
            self.forbidden.append(str(path))
            return []
        if not there:
            raise ConfigError(f"file {str(path)!r} does not exist; expected a file or a directory")
        self._visit(path, found, links)
        while links:
            self._visit(links.popleft(), found, links)
        return sorted(found)

    def _visit(self, folder: Path, found: list[Path], links: deque[Path]) -> None:
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in self._visited:
                return
            self._visited.add((status.st_dev, status.st_ino))
            entries = sorted(folder.iterdir())
        except PermissionError:
            self.forbidden.append(str(folder))
            return
        for path in entries:
            if path.name.startswith((".", "_")):
                continue
            try:
                if path.is_file():
                    found.append(path)
                elif path.is_dir() and path.is_symlink():
                    links.append(path)
                elif path.is_dir():
                    self._visit(path, found, links)
            except PermissionError:
                self.forbidden.append(str(path))
