"""Local directories owned by one process: working state, copies, sockets, temporary files.

The owner holds a lock on its directory while it lives. The kernel releases the lock when the process ends, also by
`kill -9`, so a directory that can be locked has no owner any more, and `sweep` removes it. Age decides nothing. A
directory whose name says that another host made it, that another user owns or that others can enter is left alone.

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
    "DealtDirectories",
    "OwnedDirectory",
    "hold_in_common",
    "short_directory",
    "sweep",
    "temporary_roots",
    "working_directory",
]

_LONG: Final = 60

_in_common: Final[dict[Path, int]] = {}


class OwnedDirectory:
    """A new private directory below `root`, removed by `remove`, at the end of a `with`, or when this process ends.

    Without `root` it is where temporary files are.

    Raises:
        OSError: it cannot be made.
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
                # Another process swept it before it was locked.
        self.remove = weakref.finalize(self, _remove, self.path, handle, os.getpid())
        """Remove it with its contents. Idempotent."""

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class DealtDirectories:
    """Directories for numbered workers, below an owned one in each of several roots, which are dealt in turn."""

    def __init__(self, kind: str, roots: Sequence[str]) -> None:
        self._kind = kind
        self._roots = roots or (tempfile.gettempdir(),)
        self._owned: dict[str, OwnedDirectory] = {}

    def of(self, number: int) -> Path:
        """The directory of a worker.

        Raises:
            ConfigError: it cannot be made.
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
        """Remove all of them. Idempotent."""
        for owned in self._owned.values():
            owned.remove()
        self._owned.clear()


def working_directory(kind: str, root: str) -> OwnedDirectory:
    """A new directory for working state below a root that a setting names, which is made if it is missing.

    Raises:
        ConfigError: it cannot be made.
    """
    with _writable(root):
        make_directories(Path(root).absolute())
        return OwnedDirectory(kind, root)


def sweep(roots: Iterable[str | Path]) -> None:
    """Remove what processes of this host and user that are dead have left in these directories."""
    ours = re.compile(rf"tidegate-[a-z]+-{_host()}-[0-9a-f]+")
    for root in {Path(root) for root in roots}:
        with contextlib.suppress(OSError):
            for name in filter(ours.fullmatch, os.listdir(root)):  # noqa: PTH208  # only names are needed
                _sweep(root / name)


def hold_in_common(root: Path, kind: str, name: str) -> Path | None:
    """A directory below `root` that several processes of this user share; not swept while one of them lives.

    `name` is hexadecimal. None if the directory cannot be made, is being swept, or is not private to this user, which is
    said once.
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
        os.close(_in_common[directory])  # of one that was removed
    _in_common[directory] = handle
    return directory


def short_directory() -> str:
    """Where sockets go: the address of one has room for about 100 characters, and a long TMPDIR leaves too few."""
    return tempfile.gettempdir() if len(tempfile.gettempdir()) < _LONG else "/tmp"


@contextlib.contextmanager
def _writable(root: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot write working state to {root}: {error.strerror or error}; make it writable, or name another directory "
            "in taskmanager.state.local.root-dirs"
        ) from error


def temporary_roots() -> tuple[str, str]:
    """Where this process makes directories unless a setting says otherwise."""
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
    """A descriptor of a private directory that keeps others from sweeping it.

    Raises:
        FileNotFoundError: one of them sweeps it, or has.
        PermissionError: it is not private to this user.
    """
    handle = open_directory(directory)
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
        swept = not os.path.samestat(os.fstat(handle), directory.lstat())
    except (BlockingIOError, FileNotFoundError):
        swept = True
    except OSError:
        swept = False  # on a file system without locks nothing can be swept
    if swept:
        os.close(handle)
        raise FileNotFoundError(errno.ENOENT, "is being removed", str(directory))
    return handle


def _remove(directory: Path, handle: int, owner: int) -> None:
    # A process that was forked from the owner inherits its finalizers.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
    os.close(handle)


@cache
def _host() -> str:
    # On a disk that hosts share, a lock may count only for those of one host.
    return xxhash.xxh32_hexdigest(socket.gethostname().encode())
