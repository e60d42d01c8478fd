"""Output location of a file sink: hidden files in progress and visible files.

A place is used by one operator of one pipeline; no other operator uses its hidden files. Names of hidden files have no
folders, names of those that are seen may. Writers work at a `Workplace`, committers show at an `Outlet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO, Protocol

import msgspec

from tidegate.errors import TidegateError
from tidegate.twophase.spi import CommitAnswer

__all__ = ["HIDDEN", "Outlet", "OutputPlace", "PendingFile", "Workplace"]

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
    """Hidden files that are of no use once this one is visible, because it holds what they hold."""


class OutputPlace(Protocol):
    """What both sides say about names and errors."""

    def path(self, name: str) -> str:
        """A hidden file's folder and name, which identify it to other operators too."""
        ...

    def trouble(self, error: OSError) -> TidegateError:
        """What an error of the system means to the person who named the place."""
        ...

    def shown(self, name: str) -> str:
        """How people name a file that is seen."""
        ...


class Workplace(OutputPlace, Protocol):
    """Where writers work on hidden files. Calls may block."""

    @property
    def spans(self) -> bool:
        """Whether a file can be written to after a checkpoint that counts on it."""
        ...

    def make(self) -> None:
        """Make the hidden folder.

        Raises:
            ConfigError: it cannot be there.
            UnavailableError: it cannot be made now.
        """
        ...

    def check(self, folder: str) -> None:
        """See that files can be in a folder.

        Raises:
            ConfigError: something else has its name.
        """
        ...

    def create(self, name: str) -> IO[bytes]:
        """A new hidden file, which must not be there."""
        ...

    def end(self, name: str, file: IO[bytes]) -> None:
        """Write out and close what `create` opened."""
        ...

    def hold(self, name: str, file: IO[bytes]) -> None:
        """Make durable what was written to a file that stays open."""
        ...

    def drop(self, name: str) -> None:
        """Remove a hidden file that is of no use."""
        ...

    def sync(self) -> None:
        """Make the names of hidden files durable."""
        ...

    def seal(self, name: str, pending: str, *, keep: bool) -> str:
        """Have a file that ended wait durably, if need be as `pending`, and tell the name; `keep` leaves it its first one."""
        ...

    def read(self, path: str) -> IO[bytes]:
        """A hidden file, maybe of another operator."""
        ...

    def shows(self, name: str) -> bool:
        """Whether a file is seen."""
        ...


class Outlet(OutputPlace, Protocol):
    """Where committers show hidden files, or remove them. Calls may block."""

    def publish(self, file: PendingFile) -> CommitAnswer:
        """Make a file that waits visible, or find out that it is; never overwrite."""
        ...

    def hidden(self) -> Sequence[str]:
        """The names of all hidden files."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove hidden files; missing ones are ignored."""
        ...

    def note(self, name: str) -> bytes | None:
        """What is written down in a hidden file; None if there is none."""
        ...

    def write_first_note(self, name: str, text: bytes) -> bytes:
        """Write something down in a hidden file unless it exists, durably; returns what it holds then.

        Of several calls at the same moment one writes, and all return its text. Makes the hidden folder if need be.
        """
        ...

    def write_note(self, name: str, text: bytes) -> None:
        """Write something down in a hidden file, durably and in place of what was there."""
        ...

    def mark(self, name: str) -> None:
        """Make an empty file that is seen, durably; if it is there, nothing happens."""
        ...
