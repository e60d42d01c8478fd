"""Fingerprints of records in bucket files on the local disk, read one bucket at a time.

A fingerprint has 128 bits, so of a billion records two different ones are taken for the same with a chance of 1 in 10^20.

Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, Buckets(Path(directory)) as buckets:
    ...     buckets.add(b"order 7", role=0, part=1, position=55)
    ...     buckets.add(b"order 7", role=1, part=0, position=3)
    ...     [[row[1:] for row in rows] for rows in buckets.each()]
    [[(0, 1, 55), (1, 0, 3)]]
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

import xxhash

from tidegate.errors import UnavailableError
from tidegate.runtime.working_directory import OwnedDirectory, sweep

__all__ = ["Buckets", "Row", "fingerprint_of"]

Row: TypeAlias = tuple[bytes, int, int, int]
"""Fingerprint, role of the record, its part, its position in the part."""

_ROW: Final = struct.Struct(">16sBIQ")
_COUNT: Final = 256
_HELD_BYTES: Final = 16 << 20
"""Records buffered in memory before they are written."""


fingerprint_of = xxhash.xxh3_128_digest
"""A fingerprint of 16 bytes of a record."""


class Buckets:
    """Rows by the first byte of their fingerprint, in a new directory, which `close` removes.

    Raises:
        UnavailableError: the disk cannot be written or read.
    """

    def __init__(self, directory: Path) -> None:
        sweep([directory])
        try:
            self._directory = OwnedDirectory("audit", directory)
        except OSError as error:
            raise UnavailableError(
                f"cannot write files of the audit to {directory}: {error.strerror}; name another directory with --directory"
            ) from error
        self._waiting = [bytearray() for _ in range(_COUNT)]
        self._held = 0

    def __enter__(self) -> Buckets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, record: bytes, role: int, part: int, position: int) -> None:
        """Note a record."""
        fingerprint = fingerprint_of(record)
        self._waiting[fingerprint[0]] += _ROW.pack(fingerprint, role, part, position)
        self._held += _ROW.size
        if self._held >= _HELD_BYTES:
            self._write()

    def each(self) -> Iterator[list[Row]]:
        """All rows, those with equal fingerprints together in one of the lists; nothing may be added any more."""
        self._write()
        for number in range(_COUNT):
            path = self._path(number)
            if path.exists():
                yield list(_ROW.iter_unpack(self._read(path)))

    def close(self) -> None:
        """Remove the files."""
        self._directory.remove()

    def _write(self) -> None:
        for number, waiting in enumerate(self._waiting):
            if waiting:
                try:
                    with self._path(number).open("ab") as file:
                        file.write(waiting)
                except OSError as error:
                    raise UnavailableError(
                        f"cannot write a part of the audit to {self._directory.path}: {error.strerror}; free space "
                        "there, or name another directory"
                    ) from error
                waiting.clear()
        self._held = 0

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise UnavailableError(f"cannot read back {path}: {error.strerror}") from error

    def _path(self, number: int) -> Path:
        return self._directory.path / f"{number:02x}"
