"""Output directory that all processes see under one path, with hard links and a durable `fsync`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeVar

import xxhash

from tidegate.clock import new_id
from tidegate.connectors.base.output_place import HIDDEN, PendingFile
from tidegate.errors import ConfigError, InternalError, TidegateError, UnavailableError
from tidegate.faults import point
from tidegate.twophase.spi import CommitAnswer

__all__ = ["LocalCommitterStore", "LocalWriterStore", "sync_folder"]

_CHUNK = 1 << 20
_BUFFER = 1 << 17
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_TRIES: Final = 3
"""How often a folder is made again that readers remove."""

T = TypeVar("T")


class _Local:
    """A directory, and the hidden folder in it.

    Args:
        directory: Where the output goes.
        owner: The name of the hidden folder below `HIDDEN`.
    """

    def __init__(self, directory: Path, owner: str) -> None:
        self._directory = directory
        self._folder = directory / HIDDEN / owner

    def path(self, name: str) -> str:
        """Below `HIDDEN`."""
        return f"{self._folder.name}/{name}"

    def display_name(self, name: str) -> str:
        """Its path."""
        return str(self._directory / name)

    def translate_error(self, error: OSError) -> TidegateError:
        """What an error of the file system means to the person who named the directory."""
        where = f"output directory {str(self._directory)!r}"
        if isinstance(error, FileExistsError):
            return InternalError(
                f"{where}: two writers have the same attempt id ({error.filename}); please report this"
            )
        if error.errno in _NO_LINKS and error.filename2 is not None:
            return ConfigError(
                f"{where} is on a file system without hard links, which commits need; set another directory"
            )
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            return ConfigError(
                f"{where} is not writable ({error.strerror}); grant write permission or set another directory"
            )
        if error.errno in _TOO_MANY:
            return ConfigError(
                f"{where}: too many open files ({error.strerror}); expected fewer folders per checkpoint; raise "
                "the limit (ulimit -n) or use coarser buckets"
            )
        if isinstance(error, FileNotFoundError) and not self._folder.is_dir():
            return UnavailableError(
                f"{where}: its folder {HIDDEN}/{self._folder.name} of unfinished files was removed while the job "
                "runs; only tidegate may remove it; the epoch is written again; commits of files that were in it "
                "fail"
            )
        if error.errno in _FULL:
            return UnavailableError(
                f"{where}: no space left ({error.strerror}); free some space; the epoch is written again"
            )
        return UnavailableError(
            f"{where}: cannot write a file ({error.strerror or error}); the epoch is written again"
        )


class LocalWriterStore(_Local):
    """Hidden files of a directory, which is made if it is not there."""

    is_appendable = True

    def make(self) -> None:
        """Make directories that are missing, durably."""
        try:
            _make(self._folder)
        except OSError as error:
            raise self.translate_error(error) from error

    def check(self, folder: str) -> None:
        """No part of its path is a file."""
        _refuse_files(self._directory / folder)

    def create(self, name: str) -> IO[bytes]:
        """A file in the hidden folder."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        return os.fdopen(os.open(self._folder / name, flags, 0o666), "wb", buffering=_BUFFER)

    def end(self, name: str, file: IO[bytes]) -> None:
        """Hold it, and close."""
        self.hold(name, file)
        file.close()

    def hold(self, name: str, file: IO[bytes]) -> None:
        """Flush and fsync."""
        file.flush()
        point("sink.before-flush")
        os.fsync(file.fileno())
        point("sink.after-flush")

    def drop(self, name: str) -> None:
        """Unlink it."""
        (self._folder / name).unlink()

    def sync(self) -> None:
        """Fsync the hidden folder."""
        sync_folder(self._folder)

    def seal(self, name: str, pending: str, *, keep: bool) -> str:
        """Link it, which proves before the ack that a commit will find hard links to work here."""
        os.link(self._folder / name, self._folder / pending)
        if not keep:
            (self._folder / name).unlink()
        sync_folder(self._folder)
        return pending

    def read(self, path: str) -> IO[bytes]:
        """Open it."""
        return (self._folder.parent / path).open("rb")

    def is_visible(self, name: str) -> bool:
        """Whether it is there."""
        return (self._directory / name).is_file()


class LocalCommitterStore(_Local):
    """Visible files of a directory."""

    def __init__(self, directory: Path, owner: str) -> None:
        super().__init__(directory, owner)
        self._durable = {directory}

    def publish(self, file: PendingFile) -> CommitAnswer:
        """Link it to its final name, which is atomic and fails if that is taken."""
        pending, final = self._folder / file.pending, self._directory / file.final
        answer = CommitAnswer.COMMITTED
        if not self._link(pending, final):
            answer = CommitAnswer.ALREADY_COMMITTED if _holds(final, file) else CommitAnswer.UNKNOWN
        if answer is not CommitAnswer.UNKNOWN:
            # The name must be durable before the only other proof of the commit goes. If its folder is gone, a reader
            # has taken the file out of it, which must not be given a second one.
            with suppress(FileNotFoundError):
                sync_folder(final.parent)
            self._unlink((file.pending, *file.also))
        return answer

    def hidden(self) -> Sequence[str]:
        """What the hidden folder lists."""
        return [entry.name for entry in self._folder.iterdir()] if self._folder.is_dir() else []

    def remove(self, names: Iterable[str]) -> None:
        """Unlink them, durably."""
        if self._folder.is_dir():
            self._unlink(names)
            sync_folder(self._folder)

    def note(self, name: str) -> bytes | None:
        """What is in it."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write_first_note(self, name: str, text: bytes) -> bytes:
        """Write another file, fsync, and link it, which fails if the name is taken."""
        _make(self._folder)
        new = self._folder / f"{name}.{new_id()}"
        _write(new, text)
        with suppress(FileExistsError):
            os.link(new, self._folder / name)
        new.unlink()
        sync_folder(self._folder)
        return (self._folder / name).read_bytes()

    def write_note(self, name: str, text: bytes) -> None:
        """Write another file, fsync, and rename it."""
        new = self._folder / f"{name}.new"
        _write(new, text)
        new.replace(self._folder / name)
        sync_folder(self._folder)

    def mark(self, name: str) -> None:
        """Make it, and fsync."""
        path = self._directory / name

        def make() -> None:
            with path.open("ab") as file:
                os.fsync(file.fileno())
            sync_folder(path.parent)

        self._in_folder(path.parent, make)

    def _in_folder(self, folder: Path, act: Callable[[], T]) -> T:
        """Perform an action in a visible folder, which readers may remove whenever it is empty.

        Raises:
            UnavailableError: it was removed each time.
        """
        for _ in range(_TRIES):
            try:
                self._make_folders(folder)
                return act()
            except FileNotFoundError:
                self._durable = {self._directory}
        raise UnavailableError(
            f"output directory {str(self._directory)!r}: another process removes folder {str(folder)!r} as soon "
            f"as it is created; got {_TRIES} attempts; do not delete empty folders while the job runs; the commit "
            "is retried"
        )

    def _link(self, pending: Path, final: Path) -> bool:
        """Give a file its final name; False if the name is taken or the file is gone."""

        def link() -> bool:
            try:
                os.link(pending, final)
            except FileExistsError:
                return False
            return True

        try:
            return self._in_folder(final.parent, link)
        except UnavailableError:
            if pending.exists():
                raise
            return False

    def _make_folders(self, folder: Path) -> None:
        """Create the folders of a visible file, each durable in its parent, including existing ones."""
        if folder not in self._durable:
            self._make_folders(folder.parent)
            try:
                folder.mkdir(exist_ok=True)
            except FileExistsError:
                raise ConfigError(
                    f"output directory {str(self._directory)!r}: {str(folder)!r} is a file; expected a folder; "
                    "move it elsewhere"
                ) from None
            sync_folder(folder.parent)
            self._durable.add(folder)

    def _unlink(self, names: Iterable[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)


def _holds(path: Path, file: PendingFile) -> bool:
    """Whether `path` is the file that was prepared."""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    checksum = xxhash.xxh3_64()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            checksum.update(chunk)
    return checksum.hexdigest() == file.checksum


def _write(path: Path, text: bytes) -> None:
    with path.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _refuse_files(folder: Path) -> None:
    path = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), None)
    if path is not None:
        raise ConfigError(f"output directory: {str(path)!r} is a file; expected a directory; set another one")


def _make(folder: Path) -> None:
    _refuse_files(folder)
    # A crash may have come between making our own folders and their sync, so these are synced in any case.
    new = [path for path in (folder, *folder.parents) if path in (folder, folder.parent) or not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(new):
        sync_folder(path.parent)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def sync_folder(directory: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
