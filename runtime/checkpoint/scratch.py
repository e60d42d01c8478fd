"""Temporary local directories of checkpoint readers, removed when the reader is closed.

Example:
    >>> class Reader(Scratch):
    ...     def read(self) -> Path:
    ...         return self._new_directory()
    >>> with Reader() as reader:
    ...     found = reader.read()
    >>> found.exists()
    False
"""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from tidegate.runtime.working_directory import OwnedDirectory

__all__ = ["Scratch"]


class Scratch:
    """What has local directories; to be closed, or used with `with`."""

    def __init__(self) -> None:
        self._root = OwnedDirectory("state")

    def close(self) -> None:
        """Remove what was written locally. Idempotent."""
        self._root.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _new_directory(self) -> Path:
        return Path(mkdtemp(dir=self._root.path))
