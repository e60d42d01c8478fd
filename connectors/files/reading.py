"""Interface of file formats for the source: splitting of a file, and the records of a part.

A format is a picklable object with these two methods; `LineFormat` is the start for one whose records are lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidegate.connectors.files.split import FileSplit
from tidegate.errors import ConfigError, RecordError

__all__ = ["OUT_OF_REACH", "BadRecord", "FileFormat", "Piece", "check_columns", "forbidden"]

OUT_OF_REACH: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""What the system says of a file that is not there, is another thing, or is not for us; trying again does not help."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A bad record: its bytes, its position, and the error."""

    data: bytes
    at: int
    error: RecordError


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records, where each of them begins, and, as one bound more, where to continue after the last.

    `bad` has the bad records among them.
    """

    values: Sequence[Any]
    bounds: Sequence[int]
    bad: Sequence[BadRecord] = ()


def forbidden(path: str) -> ConfigError:
    """What to raise where a file or a folder may not be read.

    Example:
        >>> print(forbidden("/data/a"))
        '/data/a' cannot be read: permission denied; grant read permission, or set on_error to 'skip'
    """
    return ConfigError(
        f"{path!r} cannot be read: permission denied; grant read permission, or set on_error to 'skip'"
    )


class FileFormat(Protocol):
    """How files are read."""

    def parts(self, path: str, most: int) -> list[FileSplit]:
        """The file in parts of about `most` bytes, which are read independently. Called by the coordinator.

        Raises:
            OSError: the file cannot be read.
            RecordError: it is not of this format.
        """
        ...

    def read(self, split: FileSplit) -> Iterator[Piece]:
        """The records of a part from `at` on, in order, the same each time. Called by a reader's thread.

        Raises:
            OSError: the file cannot be read now.
            RecordError: something in it is not of this format, and cannot be left out.
        """
        ...


def check_columns(what: str, columns: tuple[str, ...] | None) -> None:
    """Refuse records with nothing in them.

    Raises:
        ConfigError: no column is wanted.
    """
    if columns == ():
        raise ConfigError(f"{what} columns are (); expected at least one, or None for all")
