"""Output location of a file sink: hidden files in progress and visible files.

A place is used by one operator of one pipeline; no other operator uses its hidden files. Names of hidden files have no
folders, names of those that are seen may. Writers use a `WriterStore`, committers a `CommitterStore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO, Protocol

import msgspec

from tidegate.errors import TidegateError
from tidegate.twophase.spi import CommitAnswer

__all__ = ["HIDDEN", "CommitterStore", "OutputPlace", "PendingFile", "WriterStore"]

HIDDEN = ".tidegate"
"""The folder of unfinished work; listings and globs leave names with a leading dot out."""


class PendingFile(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="v", tag=1):
    """Which hidden file becomes which, and how to recognise it; `v` versions the encoding."""

    pending: str
    final: str
    size: int
    checksum: str
    records: int
    also: tuple[str, ...] = ()
    """Hidden files that are removed once this one is visible, because it contains their records."""


class OutputPlace(Protocol):
    """Names and errors, for writers and committers."""

    def path(self, name: str) -> str:
        """A hidden file's folder and name, which identify it to other operators too."""
        ...

    def translate_error(self, error: OSError) -> TidegateError:
        """The error to report for an error of the file system."""
        ...

    def display_name(self, name: str) -> str:
        """The name of a visible file in messages."""
        ...


class WriterStore(OutputPlace, Protocol):
    """Hidden files of writers. Calls may block."""

    @property
    def is_appendable(self) -> bool:
        """Whether a file can be appended to after a checkpoint that contains it."""
        ...

    def make(self) -> None:
        """Create the hidden folder.

        Raises:
            ConfigError: the location does not support it.
            UnavailableError: it cannot be created now.
        """
        ...

    def check(self, folder: str) -> None:
        """Check that a folder can contain files.

        Raises:
            ConfigError: a file has its name.
        """
        ...

    def create(self, name: str) -> IO[bytes]:
        """Create a hidden file, which must not exist."""
        ...

    def end(self, name: str, file: IO[bytes]) -> None:
        """Flush and close a file that `create` opened."""
        ...

    def hold(self, name: str, file: IO[bytes]) -> None:
        """Make the content of a file that stays open durable."""
        ...

    def drop(self, name: str) -> None:
        """Remove a hidden file that is not needed."""
        ...

    def sync(self) -> None:
        """Make the names of hidden files durable."""
        ...

    def seal(self, name: str, pending: str, *, keep: bool) -> str:
        """Make a closed file durable, if needed under the name `pending`, and return its name; `keep` keeps the first name."""
        ...

    def read(self, path: str) -> IO[bytes]:
        """A hidden file, maybe of another operator."""
        ...

    def is_visible(self, name: str) -> bool:
        """Whether a file is visible."""
        ...


class CommitterStore(OutputPlace, Protocol):
    """Publishes or removes hidden files for committers. Calls may block."""

    def publish(self, file: PendingFile) -> CommitAnswer:
        """Make a pending file visible, or detect that it is; never overwrites."""
        ...

    def hidden(self) -> Sequence[str]:
        """The names of all hidden files."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove hidden files; missing ones are ignored."""
        ...

    def note(self, name: str) -> bytes | None:
        """The content of a hidden file; None if it does not exist."""
        ...

    def write_first_note(self, name: str, text: bytes) -> bytes:
        """Create a hidden file with this content unless it exists, durably; returns its content.

        Of several calls at the same moment one writes, and all return its text. Makes the hidden folder if need be.
        """
        ...

    def write_note(self, name: str, text: bytes) -> None:
        """Replace the content of a hidden file, durably."""
        ...

    def mark(self, name: str) -> None:
        """Create an empty visible file, durably, unless it exists."""
        ...
