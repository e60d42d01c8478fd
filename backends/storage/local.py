"""Directory checkpoint storage: on this host, or on a shared file system with POSIX links.

Nothing is ever seen half-written: content goes to a temporary name, is fsynced, and only then gets its real name by
one atomic rename (blobs) or one exclusive link (decisions). A crash leaves at most a temporary file that is never read.

A decision is a sequence of numbered version files. `swap` is the exclusive creation of the next number; the
highest number is current. Old versions are removed a few swaps late, so a reader that looked at the directory just
before still finds one. A writer so slow that the number it creates was removed in the meantime sees the higher ones
and withdraws.

Directories are made with one mode and files with one derived from it, regardless of the umask; directories that exist keep
theirs. State holds what records hold, so only its owner reads it unless another mode is set.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from tidegate.backends.private import PRIVATE, file_mode, make_directories
from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions
from tidegate.clock import new_id
from tidegate.errors import ConfigError, StateCorruptError, UnavailableError

__all__ = ["LocalStorage"]

_TEMPORARY: Final = ".tmp-"
_VERSION: Final = "@"
_KEPT_VERSIONS: Final = 8
_BUFFER: Final = 1024 * 1024


class LocalStorage(CheckpointStorage):
    """Describes a directory; it is made with the first file.

    Args:
        root: Where it is.
        buffer_bytes: How much of a file is written at once.
        mode: The mode of directories that are made, from which that of files follows; None leaves both to the umask.

    Example:
        >>> LocalStorage(Path("/var/lib/app")).url
        'file:///var/lib/app'
    """

    def __init__(self, root: Path, buffer_bytes: int = _BUFFER, mode: int | None = PRIVATE) -> None:
        self._root = Path(os.path.abspath(root))  # noqa: PTH100  # resolving links would be I/O
        self._buffer_bytes = buffer_bytes
        self._mode = mode
        self.url = f"file://{quote(str(self._root))}"

    def buffered(self, size: int) -> LocalStorage:
        """The same directory, written to in pieces of `size` bytes."""
        return LocalStorage(self._root, size, self._mode)

    def with_mode(self, mode: int) -> LocalStorage:
        """The same directory, where directories are made with `mode`."""
        return LocalStorage(self._root, self._buffer_bytes, mode)

    @property
    def blobs(self) -> Blobs:
        """The files."""
        return _LocalBlobs(self._root, _Maker(self._mode, self._buffer_bytes))

    @property
    def decisions(self) -> Decisions:
        """The decisions."""
        return _LocalDecisions(self._root, _Maker(self._mode, _BUFFER))


class _LocalBlobs(Blobs):
    def __init__(self, root: Path, maker: _Maker) -> None:
        self._root = root
        self._maker = maker

    def put(self, name: str, source: bytes | Path) -> None:
        target = _path(self._root, name)
        with _available(target), self._maker.temporary(target, source) as temporary:
            temporary.replace(target)
            _sync_directory(target.parent)

    def open(self, name: str) -> BinaryIO:
        target = _path(self._root, name)
        with _available(target):
            try:
                return target.open("rb")
            except FileNotFoundError as error:
                raise StateCorruptError(
                    f"file {target} does not exist; restore an older checkpoint"
                ) from error

    def list(self, prefix: str) -> list[str]:
        start = _path(self._root, prefix.rpartition("/")[0] or ".")
        with _available(start):
            names = [
                (Path(folder) / file).relative_to(self._root).as_posix()
                for folder, _, files in os.walk(start, onerror=_unless_missing)
                for file in files
                if _TEMPORARY not in file
            ]
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            target = _path(self._root, name)
            with _available(target):
                target.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    target.parent.rmdir()

    def reserve(self, prefix: str) -> None:
        place = _path(self._root, prefix)
        with _available(place):
            self._maker.make_directory(place)

    def forget_unfinished(self, prefix: str) -> None:
        start = _path(self._root, prefix)
        with _available(start):
            for folder, _, files in os.walk(start, onerror=_unless_missing):
                for file in files:
                    if _TEMPORARY in file:
                        (Path(folder) / file).unlink(missing_ok=True)


class _LocalDecisions(Decisions):
    def __init__(self, root: Path, maker: _Maker) -> None:
        self._root = root
        self._maker = maker

    def create(self, name: str, data: bytes) -> bool:
        return self.swap(name, None, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        target = _decision_path(self._root, name)
        version = int(old_tag) + 1 if old_tag is not None else 0
        mine = _versioned(target, version)
        with _available(mine), self._maker.temporary(mine, data) as temporary:
            if _highest(target) != version - 1 or not _link(temporary, mine):
                return False
            if _highest(target) > version:
                # The number was free only because the version that had it is history.
                mine.unlink(missing_ok=True)
                return False
            _sync_directory(mine.parent)
            _clean(target, version)
            return True

    def read(self, name: str) -> Decision | None:
        target = _decision_path(self._root, name)
        with _available(target):
            while (version := _highest(target)) >= 0:
                with contextlib.suppress(FileNotFoundError):
                    return Decision(str(version), _versioned(target, version).read_bytes())
        return None


def _path(root: Path, name: str) -> Path:
    path = root / name
    if ".." in path.parts or Path(name).is_absolute() or _TEMPORARY in name:
        raise ConfigError(
            f"invalid file name {name!r} for a checkpoint storage; expected a relative path without '..' and "
            f"{_TEMPORARY!r}"
        )
    return path


def _decision_path(root: Path, name: str) -> Path:
    if _VERSION in name.rpartition("/")[2]:
        raise ConfigError(f"invalid decision name {name!r}; expected a name without {_VERSION!r}")
    return _path(root, name)


def _versioned(target: Path, version: int) -> Path:
    """Version 0 carries the plain name, so that what is only ever created looks like any other file."""
    return target.with_name(f"{target.name}{_VERSION}{version:012d}") if version else target


def _versions(target: Path) -> dict[int, Path]:
    found = {0: target} if target.exists() else {}
    start = f"{target.name}{_VERSION}"
    try:
        names = os.listdir(target.parent)  # noqa: PTH208  # only names are needed
    except FileNotFoundError:
        return found
    for name in names:
        number = name[len(start) :]
        if name.startswith(start) and number.isdigit():
            found[int(number)] = target.with_name(name)
    return found


def _highest(target: Path) -> int:
    """The current version, -1 if there is none."""
    highest = max(_versions(target), default=-1)
    # A directory listing may miss what is created while it runs.
    while _versioned(target, highest + 1).exists():
        highest += 1
    return highest


def _clean(target: Path, current: int) -> None:
    """Remove versions that are no longer read, and temporary files of crashed writers."""
    start = f"{target.name}{_VERSION}"
    for name in os.listdir(target.parent):  # noqa: PTH208  # only names are needed
        version, _, _ = name[len(start) :].partition(_TEMPORARY)
        if name.startswith(start) and version.isdigit() and int(version) <= current - _KEPT_VERSIONS:
            target.with_name(name).unlink(missing_ok=True)
    if current >= _KEPT_VERSIONS:
        target.unlink(missing_ok=True)


def _link(temporary: Path, target: Path) -> bool:
    try:
        target.hardlink_to(temporary)
    except (FileExistsError, FileNotFoundError):
        # Taken, or so late that the temporary file was already cleaned up with its version.
        return False
    return True


class _Maker:
    """Makes directories and files, with the modes that are asked for."""

    def __init__(self, mode: int | None, buffer_bytes: int) -> None:
        self._mode = mode
        self._buffer_bytes = buffer_bytes

    @contextlib.contextmanager
    def temporary(self, target: Path, source: bytes | Path) -> Iterator[Path]:
        """A durable copy of `source` in the directory of `target`, removed afterwards unless it was renamed."""
        temporary = target.with_name(f"{target.name}{_TEMPORARY}{new_id()}")
        try:
            with (
                self._create(temporary) as file,
                BytesIO(source) if isinstance(source, bytes) else source.open("rb") as data,
            ):
                shutil.copyfileobj(data, file, self._buffer_bytes)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def make_directory(self, directory: Path) -> None:
        """Make a directory and all above it that are missing, and have the disk know."""
        for missing in make_directories(directory, self._mode):
            _sync_directory(missing.parent)

    def _create(self, path: Path) -> BinaryIO:
        while True:
            # Another process may remove the directory at any moment while it is empty.
            with contextlib.suppress(FileNotFoundError):
                self.make_directory(path.parent)
                return open(
                    path, "xb", buffering=self._buffer_bytes, opener=self._opened
                )  # the method has no opener

    def _opened(self, path: str, flags: int) -> int:
        if self._mode is None:
            return os.open(path, flags, 0o666)
        mode = file_mode(self._mode)
        handle = os.open(path, flags, mode)
        os.fchmod(handle, mode)
        return handle


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _available(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UnavailableError(
            f"checkpoint storage cannot read or write {error.filename or path}: {reason}; make the directory "
            "writable, free space, or use another one"
        ) from error


def _unless_missing(error: OSError) -> None:
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        raise error
