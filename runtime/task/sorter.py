"""Records by key, then by time, then as they came: sorted in memory, and on disk when there are more than fit.

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
"""Key, time, number of the layout, value, entries of the other columns; the first two decide the order. Entries come back
as msgpack holds them."""

_OVERHEAD: Final = 200
"""Bytes that Python needs for one record in memory besides key and value."""
_MOST_RUNS: Final = 64
"""Runs that are merged at once; a block of each is in memory then, all blocks together as much as was sorted."""

_BY_KEY_AND_TIME: Final = itemgetter(0, 1)
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Sortable])


class Sorter:
    """Takes records in any order, gives them sorted; holds about `memory_bytes` of them in memory, twice that while runs
    are merged."""

    def __init__(self, directory: Path, memory_bytes: int) -> None:
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._buffer: list[Sortable] = []
        self._buffered = 0
        self._file: SpillFile | None = None
        self._runs: list[tuple[int, int]] = []
        self.spilled = 0
        """Records written to disk, also repeatedly."""

    def add(self, record: Sortable) -> None:
        """Take a record.

        Raises:
            UnavailableError: the disk did not take what does not fit.
        """
        self._buffer.append(record)
        self._buffered += _size(record)
        if self._buffered >= self._memory_bytes:
            self._spill()

    def sorted(self) -> Iterator[Sortable]:
        """All records in order; nothing may be added any more.

        Raises:
            UnavailableError: the disk did not give them.
        """
        self._buffer.sort(key=_BY_KEY_AND_TIME)
        runs = [_read(self._file, run) for run in self._runs] if self._file is not None else []
        return heapq.merge(*runs, self._buffer, key=_BY_KEY_AND_TIME)

    def close(self) -> None:
        """Forget everything."""
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
        """Each run costs a block of memory while runs are merged, so there are never many."""
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
        """The next few records, at least one."""
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
