"""Sorted input: groups the keyed input of a batch task by key, sorted by time within a key.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> taken = SortedInput([None], Path(tempfile.gettempdir()), memory_bytes=1)
    >>> taken.add(0, Batch(["late", "early", "other"], [3, 1, 2], ["a", "a", "b"]))
    >>> for key, batches in taken.by_key():
    ...     print(key, [batch.values for batch, _ in batches])
    a [['early', 'late']]
    b [['other']]
    >>> taken.close()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidegate.elements import MIN_WATERMARK, Batch, batch_of
from tidegate.keys import key_bytes, key_from_bytes
from tidegate.runtime.task.sorter import Sortable, Sorter
from tidegate.serde import exchange_codec
from tidegate.types import TypeInformation

__all__ = ["PIECE", "SortedInput"]

PIECE: Final = 1_024
"""Maximum records of a returned batch."""


class _Layout(NamedTuple):
    """The layout of a sorted record: the number of its input, whether it has a timestamp, and its other columns."""

    input: int
    timed: bool
    columns: tuple[str, ...]


class SortedInput:
    """Sorts records by key, then by time; `types` are the value types of the inputs."""

    def __init__(self, types: Iterable[TypeInformation | None], directory: Path, memory_bytes: int) -> None:
        self._codecs = [exchange_codec(each) for each in types]
        self._sorter = Sorter(directory, memory_bytes)
        self._layouts: dict[_Layout, int] = {}

    def add(self, number: int, batch: Batch) -> None:
        """Add a batch of a keyed input.

        Raises:
            RecordError: a value is not of its declared type.
            UnavailableError: records that exceed the memory cannot be written to disk.
        """
        columns = batch.columns()
        values, keys, times = columns.pop("values"), columns.pop("keys"), columns.pop("timestamps", None)
        own = _Layout(number, times is not None, tuple(columns))
        layout = self._layouts.setdefault(own, len(self._layouts))
        stored = {key: key_bytes(key) for key in set(keys)}
        stamps = times if times is not None else repeat(MIN_WATERMARK)
        others = zip(*columns.values(), strict=True) if columns else repeat(())
        encode, add = self._codecs[number].encode, self._sorter.add
        for key, stamp, value, entries in zip(keys, stamps, values, others, strict=False):
            add((stored[key], stamp, layout, encode(value), entries))

    def by_key(self) -> Iterator[tuple[Any, Iterator[tuple[Batch, int]]]]:
        """Each key with its batches and their input numbers; no batch may be added afterwards.

        Raises:
            UnavailableError: they cannot be read from disk.
        """
        for stored, records in groupby(self._sorter.sorted(), key=itemgetter(0)):
            key = key_from_bytes(stored)
            yield key, self._batches(key, records)

    def close(self) -> None:
        """Release the disk space."""
        self._sorter.close()

    def _batches(self, key: Any, records: Iterator[Sortable]) -> Iterator[tuple[Batch, int]]:
        """Batches of consecutive records from one input with the same columns."""
        layouts = list(self._layouts)
        for layout, run in groupby(records, key=itemgetter(2)):
            number, timed, names = layouts[layout]
            decode = self._codecs[number].decode
            while piece := list(islice(run, PIECE)):
                _, times, _, values, entries = zip(*piece, strict=True)
                columns = dict(zip(names, zip(*entries, strict=True), strict=True))
                if timed:
                    columns["timestamps"] = times
                yield batch_of(list(map(decode, values)), [key] * len(piece), columns), number
