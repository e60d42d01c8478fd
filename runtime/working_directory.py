"""Working directories: local directories owned by one process, for state, copies, sockets and temporary files.

The owner holds a lock on its directory. The kernel releases the lock when the process ends, also after `kill -9`, so a
directory that can be locked has no owner, and `sweep` deletes it; its age does not matter. Directories with the name of
another host, directories of other users and directories that others can enter are not touched.

Example:
    >>> with OwnedDirectory("example") as path:
    ...     oct(path.stat().st_mode & 0o777)
    '0o700'
    >>> path.exists()
    False
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import socket
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final

import xxhash

from tidegate.backends.private import make_directories, make_directory, open_directory
from tidegate.clock import new_id
from tidegate.errors import ConfigError

__all__ = [
    "OwnedDirectory",
    "WorkerDirectories",
    "shared_directory",
    "short_directory",
    "sweep",
    "temporary_roots",
    "working_directory",
]

_LONG: Final = 60

_in_common: Final[dict[Path, int]] = {}


class OwnedDirectory:
    """A new private directory below `root`, deleted by `remove`, at the end of a `with`, or when this process ends.

    The default `root` is the directory of temporary files.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, kind: str, root: str | Path | None = None) -> None:
        above = Path(root if root is not None else tempfile.gettempdir()).absolute()
        handle = None
        while handle is None:
            self.path = above / f"tidegate-{kind}-{_host()}-{new_id(8)}"
            try:
                make_directory(self.path)
                handle = _locked(self.path)
            except FileNotFoundError:
                if not above.is_dir():
                    raise
                # Another process deleted it before it was locked.
        self.remove = weakref.finalize(self, _remove, self.path, handle, os.getpid())
        """Delete it with its contents. Idempotent."""

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class WorkerDirectories:
    """Directories for numbered workers, distributed round-robin over several roots; each root has one owned directory."""

    def __init__(self, kind: str, roots: Sequence[str]) -> None:
        self._kind = kind
        self._roots = roots or (tempfile.gettempdir(),)
        self._owned: dict[str, OwnedDirectory] = {}

    def of(self, number: int) -> Path:
        """The directory of a worker.

        Raises:
            ConfigError: it cannot be created.
        """
        root = self._roots[number % len(self._roots)]
        if root not in self._owned:
            self._owned[root] = working_directory(self._kind, root)
        directory = self._owned[root].path / f"worker-{number}"
        with _writable(root):
            make_directories(directory)
        return directory

    def all(self) -> list[Path]:
        """The directories of all workers."""
        return [path for owned in self._owned.values() for path in owned.path.iterdir()]

    def remove(self) -> None:
        """Delete all of them. Idempotent."""
        for owned in self._owned.values():
            owned.remove()
        self._owned.clear()


def working_directory(kind: str, root: str) -> OwnedDirectory:
    """A new directory for working state below a configured root, which is created if it does not exist.

    Raises:
        ConfigError: it cannot be created.
    """
    with _writable(root):
        make_directories(Path(root).absolute())
        return OwnedDirectory(kind, root)


def sweep(roots: Iterable[str | Path]) -> None:
    """Delete directories of dead processes of this host and user below these roots."""
    ours = re.compile(rf"tidegate-[a-z]+-{_host()}-[0-9a-f]+")
    for root in {Path(root) for root in roots}:
        with contextlib.suppress(OSError):
            for name in filter(ours.fullmatch, os.listdir(root)):  # noqa: PTH208  # only names are needed
                _sweep(root / name)


def shared_directory(root: Path, kind: str, name: str) -> Path | None:
    """A directory below `root` that processes of this user share; it is not swept while one of them lives.

    `name` is hexadecimal. None if the directory cannot be created, is being swept, or is not private to this user; the
    last case gives one warning.
    """
    directory = root / f"tidegate-{kind}-{_host()}-{name}"
    if directory in _in_common and directory.is_dir():
        return directory
    try:
        with contextlib.suppress(FileExistsError):
            make_directory(directory)
        handle = _locked(directory, fcntl.LOCK_SH)
    except PermissionError as error:
        warnings.warn(f"{error}; it is not used", RuntimeWarning, stacklevel=1)
        return None
    except OSError:
        return None
    if directory in _in_common:
        os.close(_in_common[directory])  # the lock of a deleted directory
    _in_common[directory] = handle
    return directory


def short_directory() -> str:
    """The directory for sockets: an address has at most about 100 characters, and a long TMPDIR leaves too few."""
    return tempfile.gettempdir() if len(tempfile.gettempdir()) < _LONG else "/tmp"


@contextlib.contextmanager
def _writable(root: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot write working state to {root}: {error.strerror or error}; make it writable, or set "
            "taskmanager.state.local.root-dirs to another directory"
        ) from error


def temporary_roots() -> tuple[str, str]:
    """The default roots of this process."""
    return tempfile.gettempdir(), short_directory()


def _sweep(directory: Path) -> None:
    with contextlib.suppress(OSError):
        handle = open_directory(directory)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(handle)


def _locked(directory: Path, how: int = fcntl.LOCK_EX) -> int:
    """Lock a private directory, so that others do not sweep it; returns the descriptor.

    Raises:
        FileNotFoundError: another process is deleting it or has deleted it.
        PermissionError: it is not private to this user.
    """
    handle = open_directory(directory)
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
        swept = not os.path.samestat(os.fstat(handle), directory.lstat())
    except (BlockingIOError, FileNotFoundError):
        swept = True
    except OSError:
        swept = False  # on a file system without locks nothing is swept
    if swept:
        os.close(handle)
        raise FileNotFoundError(errno.ENOENT, "is being removed", str(directory))
    return handle


def _remove(directory: Path, handle: int, owner: int) -> None:
    # A process forked from the owner inherits its finalizers.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
    os.close(handle)


@cache
def _host() -> str:
    # On a disk that hosts share, a lock may be visible only on one host.
    return xxhash.xxh32_hexdigest(socket.gethostname().encode())
