"""Collection source: reads values of the program.

Guarantee: bounded and replayable; the position of a record is its index. Each reader gets one contiguous part and
keeps its order.

Example:
    >>> CollectionSource(["a", "b"]).items()
    ['a', 'b']
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise
from pickle import PicklingError
from typing import Any, Final

import cloudpickle

from tidegate.changelog import ChangelogMode
from tidegate.connectors.base import ListEnumerator, RangeReader, RangeSplit
from tidegate.connectors.base.pickling import dumps, dumps_plain
from tidegate.connectors.spi import EnumeratorContext, Poll, ReaderContext, Source
from tidegate.elements import Batch, RowKind
from tidegate.errors import RecordError
from tidegate.ids import SplitId
from tidegate.row import kinds_of
from tidegate.serde import codec_for
from tidegate.types import TypeInformation

__all__ = ["CollectionSource"]

_PART: Final = 4_096
"""How many values of built-in types are unpacked at once; what was just made is still near when it is worked on."""

_INSERT_ONLY: Final = ChangelogMode.insert_only()

_AT_HAND: Final = 16
"""How many parts a reader of several splits keeps unpacked."""


@dataclass(frozen=True, init=False)
class CollectionSource(Source[RangeSplit]):
    """A collection as a source.

    The values are copied when the source is made: changing them later changes nothing.

    Args:
        items: The values.
        type_info: Their type; every value must be of it.

    Raises:
        RecordError: a value is not of the type, or cannot be sent to another process.
    """

    type_info: TypeInformation | None
    count: int
    changelog_mode: ChangelogMode = field(repr=False)
    _part: int = field(repr=False)
    _pickled: tuple[bytes, ...] = field(repr=False)

    split_type = RangeSplit
    bounded = True

    def __init__(self, items: Iterable[Any], type_info: TypeInformation | None = None) -> None:
        values = items if type(items) is list else list(items)
        if type_info is not None:
            codec = codec_for(type_info)
            values = [codec.decode(codec.encode(value)) for value in values]
        object.__setattr__(self, "type_info", type_info)
        object.__setattr__(self, "count", len(values))
        object.__setattr__(self, "changelog_mode", _mode(kinds_of(values)))
        part, pickled = _pickle(values)
        object.__setattr__(self, "_part", part)
        object.__setattr__(self, "_pickled", pickled)

    def items(self) -> list[Any]:
        """Fresh copies of the values."""
        return list(chain.from_iterable(map(cloudpickle.loads, self._pickled)))

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> ListEnumerator[RangeSplit]:
        """Deals one contiguous part per reader."""
        parts = context.parallelism
        bounds = [self.count * part // parts for part in range(parts + 1)]
        splits = [RangeSplit(SplitId(f"{low}-{high}"), low, high) for low, high in pairwise(bounds)]
        return ListEnumerator(context, [split for split in splits if not split.done], RangeSplit, restored)

    def open_reader(self, context: ReaderContext) -> RangeReader:
        """Reads parts by index, and unpacks no others."""
        pickled, size = self._pickled, self._part
        unpacked = lru_cache(_AT_HAND)(lambda part: cloudpickle.loads(pickled[part]))

        def read(numbers: range) -> list[Any]:
            values: list[Any] = []
            for part in range(numbers.start // size, (numbers.stop - 1) // size + 1):
                before = part * size
                values += unpacked(part)[max(numbers.start - before, 0) : numbers.stop - before]
            return values

        return RangeReader(read) if self.changelog_mode == _INSERT_ONLY else _ChangesReader(read)

    def bound(self, split: RangeSplit, records: int) -> tuple[RangeSplit, RangeSplit | None]:
        """At most the next `records` of a part, and the rest."""
        return split.cut(records)


class _ChangesReader(RangeReader):
    def poll(self, limit: int) -> Poll:
        found = super().poll(limit)
        if isinstance(found, Batch):
            found.kinds = kinds_of(found.values)
        return found


def _mode(kinds: list[RowKind] | None) -> ChangelogMode:
    found = {RowKind.INSERT, *(kinds or ())}
    # Where there is an old row there is a new one, even if that is in no collection.
    return ChangelogMode.of(found | {RowKind.UPDATE_AFTER} if RowKind.UPDATE_BEFORE in found else found)


def _pickle(values: list[Any]) -> tuple[int, tuple[bytes, ...]]:
    """How many values are in a part, and the parts."""
    try:
        return _PART, tuple(dumps_plain(values[at : at + _PART]) for at in range(0, len(values), _PART))
    except (PicklingError, RecursionError):
        # One part, since a class of a script travels in each: unpacking it again would undo what the job did to it.
        return len(values), (_dumps(values),)


def _dumps(values: list[Any]) -> bytes:
    try:
        return dumps(values)
    except Exception as error:  # pickling runs the code of the values' classes
        at = next((index for index, value in enumerate(values) if not _pickles(value)), 0)
        raise RecordError(
            f"item {at} ({type(values[at]).__name__}) cannot be sent to another process; use plain values"
        ) from error


def _pickles(value: Any) -> bool:
    try:
        dumps(value)
    except Exception:  # the value's class may raise anything
        return False
    return True
