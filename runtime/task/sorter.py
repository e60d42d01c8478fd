"""External sort: records by key, then by time, then by arrival; in memory, and on disk beyond the memory limit.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> sorter = Sorter(Path(tempfile.gettempdir()), memory_bytes=1)
    >>> for time, value in [(3, b"late"), (1, b"early")]:
    ...     sorter.add((b"key", time, 0, value, ()))
    >>> [value for _, _, _, value, _ in sorter.sorted()]
    [b'early', b'late']
    >>> sorter.close()
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from tidegate.runtime.task.spill import SpillFile

__all__ = ["Sortable", "Sorter"]

Sortable: TypeAlias = tuple[bytes, int, int, bytes, tuple[Any, ...]]
"""Key, time, number of the layout, value, entries of the other columns; the first two decide the order. Entries are
returned in their msgpack form."""

_OVERHEAD: Final = 200
"""Estimated memory overhead of a record besides key and value, in bytes."""
_MOST_RUNS: Final = 64
"""Maximum runs of a merge; one block of each run is in memory, all blocks together as much as the sort memory."""

_BY_KEY_AND_TIME: Final = itemgetter(0, 1)
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Sortable])


class Sorter:
    """Sorts records with about `memory_bytes` of memory, twice that while runs are merged."""

    def __init__(self, directory: Path, memory_bytes: int) -> None:
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._buffer: list[Sortable] = []
        self._buffered = 0
        self._file: SpillFile | None = None
        self._runs: list[tuple[int, int]] = []
        self.spilled = 0
        """Number of record writes to disk; a record that is merged again counts again."""

    def add(self, record: Sortable) -> None:
        """Add a record.

        Raises:
            UnavailableError: records that exceed the memory cannot be written to disk.
        """
        self._buffer.append(record)
        self._buffered += _size(record)
        if self._buffered >= self._memory_bytes:
            self._spill()

    def sorted(self) -> Iterator[Sortable]:
        """All records in order; no record may be added afterwards.

        Raises:
            UnavailableError: they cannot be read from disk.
        """
        self._buffer.sort(key=_BY_KEY_AND_TIME)
        runs = [_read(self._file, run) for run in self._runs] if self._file is not None else []
        return heapq.merge(*runs, self._buffer, key=_BY_KEY_AND_TIME)

    def close(self) -> None:
        """Release memory and disk space."""
        self._buffer = []
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        self._file = self._file or SpillFile(self._directory)
        self._buffer.sort(key=_BY_KEY_AND_TIME)
        self._runs.append(self._write(self._file, self._buffer))
        self._buffer, self._buffered = [], 0
        if len(self._runs) >= _MOST_RUNS:
            self._join_runs(self._file)

    def _join_runs(self, old: SpillFile) -> None:
        """Merge runs into one, because each run needs a block of memory in a merge."""
        self._file = SpillFile(self._directory)
        merged = heapq.merge(*(_read(old, run) for run in self._runs), key=_BY_KEY_AND_TIME)
        self._runs = [self._write(self._file, merged)]
        old.close()

    def _write(self, file: SpillFile, records: Iterable[Sortable]) -> tuple[int, int]:
        start, rest = file.size, iter(records)
        while block := self._block(rest):
            self.spilled += len(block)
            file.append(_ENCODER.encode(block))
        return start, file.size

    def _block(self, records: Iterator[Sortable]) -> list[Sortable]:
        """The next block of records, at least one."""
        block, size = [], 0
        for record in records:
            block.append(record)
            size += _size(record)
            if size * _MOST_RUNS >= self._memory_bytes:
                break
        return block


def _size(record: Sortable) -> int:
    return len(record[0]) + len(record[3]) + _OVERHEAD


def _read(file: SpillFile, run: tuple[int, int]) -> Iterator[Sortable]:
    for block in file.blocks(*run):
        yield from _DECODER.decode(block)
