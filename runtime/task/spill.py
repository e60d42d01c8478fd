"""Spill file: temporary blocks of bytes on the local disk, deleted with the process.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> spill = SpillFile(Path(tempfile.gettempdir()))
    >>> spill.append(b"one"), spill.append(b"two")
    (None, None)
    >>> list(spill.blocks(0, spill.size))
    [b'one', b'two']
    >>> spill.close()
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidegate.errors import UnavailableError

__all__ = ["SpillFile"]

_LENGTH: Final = struct.Struct(">I")


class SpillFile:
    """An unnamed file in `directory`, which the kernel deletes when it is closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with self._on_disk():
            self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 # lives as long as this object
        self.size = 0
        """The offset of the next block."""

    def append(self, block: bytes) -> None:
        """Append a block.

        Raises:
            UnavailableError: the block cannot be written to disk.
        """
        with self._on_disk():
            self._file.write(_LENGTH.pack(len(block)))
            self._file.write(block)
        self.size += _LENGTH.size + len(block)

    def blocks(self, start: int, end: int) -> Iterator[bytes]:
        """The blocks between two offsets, one in memory at a time; several iterations may run at once.

        Raises:
            UnavailableError: they cannot be read from disk.
        """
        with self._on_disk():
            self._file.flush()
        while start < end:
            (length,) = _LENGTH.unpack(self._read(start, _LENGTH.size))
            yield self._read(start + _LENGTH.size, length)
            start += _LENGTH.size + length

    def close(self) -> None:
        """Release the disk space."""
        self._file.close()

    def _read(self, start: int, length: int) -> bytes:
        with self._on_disk():
            found = os.pread(self._file.fileno(), length, start)
        if len(found) < length:
            raise UnavailableError(
                f"a spill file in {self._directory} ends early; got {len(found)} bytes at {start}; "
                f"expected {length}; check that disk"
            )
        return found

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(
                f"records cannot be spilled to {self._directory}: {error}; free space there or set TMPDIR to a larger disk"
            ) from error
