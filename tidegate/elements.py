"""Elements of a channel: batches of records, and control elements between them, in order.

Example:
    >>> batch = Batch([3, 4], timestamps=[10, 11])
    >>> len(batch), batch.timestamps
    (2, [10, 11])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from inspect import get_annotations
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from types import GenericAlias
from typing import Any, ClassVar, Final, TypeAlias, get_type_hints

import msgspec

from tidegate.arrow_rows import ArrowRows
from tidegate.errors import StateFormatError
from tidegate.ids import CheckpointId, SplitId

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "Barrier",
    "Batch",
    "BatchCursor",
    "Control",
    "Element",
    "EndOfInput",
    "Idle",
    "Origin",
    "RecordOrigin",
    "RowKind",
    "Watermark",
    "batch_of",
    "concat",
    "decode_batch",
]

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


class RowKind(IntEnum):
    """Row kind: the change of a record to its table."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """The two characters printed in front of a changed row."""
        return ("+I", "-U", "+U", "-D")[self]

    def __str__(self) -> str:
        return self.short


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a batch: the split it was read from, with one position per record."""

    split: SplitId
    positions: Sequence[int]


class RecordOrigin(msgspec.Struct, frozen=True, array_like=True, tag="record", gc=False):
    """The origin of one record, or of the record that it was derived from: the source's uid, a split, a position."""

    source: str
    split: str
    position: int


@dataclass(slots=True)
class Batch:
    """Records as parallel lists, its columns; the unit that moves between operators.

    Every field but `origin` is a column, and its annotation says what its entries are where they are encoded. A column
    is None where no record has an entry; `kinds` is None where all records are insertions. A batch is made of others
    by the methods here, by `concat` and by `BatchCursor`, which pass every column. A batch is owned by its holder: the
    lists are not changed after it was handed on. Its values are a list, or `ArrowRows` until a step needs rows.

    Example:
        >>> batch = Batch(["a", "b", "c"], kinds=[RowKind.INSERT, RowKind.DELETE, RowKind.INSERT])
        >>> picked = batch.select([1, 2])
        >>> picked.values, picked.kinds, picked.timestamps
        (['b', 'c'], [<RowKind.DELETE: 3>, <RowKind.INSERT: 0>], None)
    """

    values: Sequence[Any]
    timestamps: list[int] | None = None
    keys: list[Any] | None = None
    kinds: list[RowKind] | None = None
    origins: list[RecordOrigin | None] | None = None
    """After an exchange, for keyed state."""
    origin: Origin | None = field(default=None, kw_only=True)
    """Source positions of the records; a batch derived from this one does not have them."""

    _make: ClassVar[Any]
    """Its class, which takes all columns in order."""
    _of: ClassVar[Any]
    """All columns, in order."""
    _others_of: ClassVar[Any]
    """All but values and keys."""

    def __init_subclass__(cls) -> None:
        cls._find_columns()

    def __len__(self) -> int:
        return len(self.values)

    def columns(self) -> dict[str, Any]:
        """The columns that it has, by name."""
        named = zip(_names(type(self)), self._of(self), strict=True)
        return {name: column for name, column in named if column is not None}

    def part(self, picked: slice) -> Batch:
        """The records of a slice."""
        same: Batch = self._make(*[None if column is None else column[picked] for column in self._of(self)])
        return same

    def select(self, places: Sequence[int]) -> Batch:
        """The records at these places, in that order."""
        if len(places) < 2:
            return self.part(slice(places[0], places[0] + 1) if places else slice(0))
        pick = itemgetter(*places)
        same: Batch = self._make(
            *[
                None
                if column is None
                else column.select(places)
                if type(column) is ArrowRows
                else list(pick(column))
                for column in self._of(self)
            ]
        )
        return same

    def rows(self) -> list[Any]:
        """The values as a list, which Arrow rows are converted to."""
        values: Any = self.values
        rows: list[Any] = values.rows() if type(values) is ArrowRows else values
        return rows

    def in_rows(self) -> Batch:
        """The same batch, whose values are a list."""
        return replace(self, values=self.rows()) if type(self.values) is ArrowRows else self

    def with_values(self, values: Sequence[Any]) -> Batch:
        """The same records with other values, as many as before."""
        same: Batch = self._make(*self._of(self))
        same.values = values
        return same

    def with_keys(self, keys: list[Any]) -> Batch:
        """The same records with these keys."""
        same: Batch = self._make(*self._of(self))
        same.keys = keys
        return same

    def encoded(self) -> bytes:
        """The columns but for values and keys, which have codecs of their own; `decode_batch` reads them."""
        return _ENCODER.encode(self._others_of(self))

    @classmethod
    def _find_columns(cls) -> None:
        cls._make = cls
        cls._of = attrgetter(*_names(cls))
        cls._others_of = attrgetter(*_others(cls))


class BatchCursor:
    """Reads a batch in pieces, from its beginning, without copying the rest for each piece.

    Example:
        >>> cursor = BatchCursor(Batch([1, 2, 3]))
        >>> cursor.take(2).values, len(cursor), cursor.rest().values
        ([1, 2], 1, [3])
    """

    __slots__ = ("_batch", "_next")

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._next = 0

    def __len__(self) -> int:
        """The number of remaining records."""
        return len(self._batch) - self._next

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it has."""
        return frozenset(self._batch.columns())

    def take(self, records: int) -> Batch:
        """The next records, as many at most."""
        start, self._next = self._next, min(self._next + records, len(self._batch))
        return self._between(start, self._next)

    def rest(self) -> Batch:
        """The remaining records; they are not removed."""
        return self._between(self._next, len(self._batch))

    def _between(self, start: int, end: int) -> Batch:
        whole = start == 0 and end == len(self._batch)
        return self._batch if whole else self._batch.part(slice(start, end))


def concat(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same records in the same order, in as few batches as their columns allow."""
    alike = list(batches)
    if len(alike) < 2:
        yield from alike
        return
    first = alike[0]
    try:
        columns = [
            None
            if each[0] is None and not any(each)
            else ArrowRows.concat(each)
            if type(each[0]) is ArrowRows
            else list(chain.from_iterable(each))
            for each in zip(*map(first._of, alike), strict=True)
        ]
    except TypeError:  # some batches have a column that others do not have
        for _, group in groupby(alike, _layout):
            yield from concat(group)
        return
    yield first._make(*columns)


def decode_batch(values: Sequence[Any], keys: list[Any] | None, encoded: bytes | msgspec.Raw) -> Batch:
    """The batch with these values and keys, of which `encoded` gave the rest."""
    timestamps, *rest = _decoder(Batch).decode(encoded)
    return Batch(values, timestamps, keys, *rest)


def batch_of(values: list[Any], keys: list[Any] | None, columns: Mapping[str, Any]) -> Batch:
    """The batch with these values and keys, and other columns by name, whose entries may be as msgpack holds them.

    Raises:
        StateFormatError: there is no such column.
    """
    names = _others(Batch)
    if not columns.keys() <= set(names):
        raise StateFormatError(
            f"records have unknown columns; got {sorted(columns)}; expected some of {names}; read them with the version "
            "that wrote them, or a newer one"
        )
    timestamps, *rest = msgspec.convert([columns.get(name) for name in names], _types(Batch))
    return Batch(values, timestamps, keys, *rest)


def _names(kind: type[Any]) -> list[str]:
    """Of the columns of a class of batches, in order."""
    annotated = chain.from_iterable(map(get_annotations, reversed(kind.__mro__)))
    return [name for name in annotated if name != "origin" and not name.startswith("_")]


def _others(kind: type[Any]) -> list[str]:
    """Of the columns but for values and keys; the first are the timestamps."""
    return [name for name in _names(kind) if name not in ("values", "keys")]


def _layout(batch: Batch) -> tuple[Any, ...]:
    """Which columns there are; batches that have these in common can be joined."""
    values = batch.values
    return *map(type, batch._of(batch)), values.layout if isinstance(values, ArrowRows) else None


@cache
def _types(kind: Any) -> Any:
    """Of the columns but for values and keys, as one tuple."""
    hints = get_type_hints(kind)
    return GenericAlias(tuple, tuple(hints[name] for name in _others(kind)))


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[tuple[Any, ...]]:
    return msgspec.msgpack.Decoder(_types(kind))


_ENCODER: Final = msgspec.msgpack.Encoder()
Batch._find_columns()


class Watermark(msgspec.Struct, frozen=True, tag=True):
    """No record with a timestamp at or below `timestamp` is expected any more."""

    timestamp: int


class Barrier(msgspec.Struct, frozen=True, tag=True):
    """Everything before it belongs to `checkpoint`, everything after it does not.

    `confirmed` is the newest decided checkpoint: what it refers to stays until this one ends.
    """

    checkpoint: CheckpointId
    confirmed: CheckpointId | None = None


class Idle(msgspec.Struct, frozen=True, tag=True):
    """The input is idle and does not hold the watermark back."""

    idle: bool


class EndOfInput(msgspec.Struct, frozen=True, tag=True):
    """The input has ended."""


Control: TypeAlias = Watermark | Barrier | Idle | EndOfInput
Element: TypeAlias = Batch | Control
