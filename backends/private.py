"""Private directories and files: only the current OS user can enter or read them.

A directory below a shared one, such as that of temporary files, is made exclusively, or it is checked before it is used:
another user may have made one of the same name, or a symbolic link.

Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     make_directory(Path(root, "state"))
    ...     os.close(open_directory(Path(root, "state")))
    ...     Path(root, "state").chmod(0o755)
    ...     open_directory(Path(root, "state"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    PermissionError: .../state is not private to this user; got owner ... and mode 0755; expected owner ... and mode 0700
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, Final

from tidegate.errors import ConfigError

__all__ = [
    "PRIVATE",
    "create_file",
    "file_mode",
    "make_directories",
    "make_directory",
    "open_directory",
    "open_file",
    "parse_mode",
]

PRIVATE: Final = 0o700
"""The mode of a directory that only its owner can enter."""

_ACCESS: Final = 0o777
_READ_WRITE: Final = 0o666
_MODE: Final = re.compile("[02]?7[0-7][0145]")


def file_mode(directory_mode: int) -> int:
    """The mode of files in directories of this mode.

    Example:
        >>> oct(file_mode(0o2750))
        '0o640'
    """
    return directory_mode & _READ_WRITE


def parse_mode(text: str, label: str) -> int:
    """The mode of directories that a setting names, in octal.

    Example:
        >>> oct(parse_mode("2770", "the mode"))
        '0o2770'

    Raises:
        ConfigError: it is not such a mode, or lets others write: state is unpickled, so they could run code.
    """
    if not _MODE.fullmatch(text):
        raise ConfigError(
            f"{label} has an invalid value; got {text!r}; expected an octal mode that gives the owner 7 and others "
            "no write access, such as 0700, 0750 or 2770"
        )
    return int(text, 8)


def make_directory(directory: Path, mode: int | None = PRIVATE) -> None:
    """Make a directory of exactly this mode, whatever the umask, and never more open; None leaves it to the umask.

    Raises:
        FileExistsError: the name is taken, if only by a symbolic link.
        OSError: it cannot be made.
    """
    if mode is None:
        directory.mkdir()
        return
    directory.mkdir(mode=mode & _ACCESS)
    # The umask may have taken bits away. A group that is inherited from the parent stays inherited.
    found = stat.S_IMODE(directory.lstat().st_mode)
    wanted = mode | (found & stat.S_ISGID)
    if found != wanted:
        directory.chmod(wanted)


def make_directories(directory: Path, mode: int | None = PRIVATE) -> list[Path]:
    """Make a directory and all above it that are missing; those that exist keep their modes.

    Returns:
        Those that were missing, the uppermost first.

    Raises:
        OSError: one of them cannot be made.
    """
    if directory.is_dir():
        return []
    missing = [*make_directories(directory.parent, mode), directory]
    try:
        make_directory(directory, mode)
    except FileExistsError:
        if not directory.is_dir():
            raise
    return missing


def open_directory(directory: Path) -> int:
    """A descriptor of a directory that is private to this user; the caller closes it.

    Raises:
        PermissionError: another user owns it, others may enter it, or it is a file or a symbolic link.
        OSError: it cannot be opened.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if os.path.lexists(directory) and not stat.S_ISDIR(directory.lstat().st_mode):
            raise PermissionError(
                f"{directory} is a file or a symbolic link; expected a directory"
            ) from error
        raise
    found = os.fstat(handle)
    if found.st_uid == os.geteuid() and found.st_mode & _ACCESS == PRIVATE:
        return handle
    os.close(handle)
    raise PermissionError(
        f"{directory} is not private to this user; got owner {found.st_uid} and mode {found.st_mode & _ACCESS:04o}; "
        f"expected owner {os.geteuid()} and mode {PRIVATE:04o}"
    )


def open_file(handle: int, name: str) -> BinaryIO:
    """Open a regular file of this user for reading, in a directory given by its descriptor.

    Raises:
        PermissionError: it is a symbolic link, not a regular file, or another user's.
        OSError: it cannot be opened.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise PermissionError(f"{name} is not a regular file of user {os.geteuid()}")


def create_file(handle: int, name: str) -> BinaryIO:
    """Open a new file that only this user can read, in a directory given by its descriptor; replaces an existing file.

    Raises:
        OSError: it cannot be made.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=handle)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(name, flags, 0o600, dir_fd=handle), "wb")
