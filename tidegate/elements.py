"""What travels between operators: batches of records, and control elements between them, in order.

Example:
    >>> batch = Batch([3, 4], timestamps=[10, 11])
    >>> len(batch), batch.timestamps
    (2, [10, 11])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import msgspec

from tidegate.ids import CheckpointId, SplitId

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "Barrier",
    "Batch",
    "Control",
    "Element",
    "EndOfInput",
    "Idle",
    "Origin",
    "RecordOrigin",
    "RowKind",
    "Watermark",
]

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


class RowKind(IntEnum):
    """What a change record does to the table it belongs to."""

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
    """Where the records of a batch were read: one split, one position per record."""

    split: SplitId
    positions: Sequence[int]


class RecordOrigin(msgspec.Struct, frozen=True, array_like=True, tag="record", gc=False):
    """Where one record was read, or the record that it was made from: the source's uid, a split, a position."""

    source: str
    split: str
    position: int


@dataclass(slots=True)
class Batch:
    """Records as parallel lists; the unit that moves between operators.

    `timestamps`, `keys` and `kinds` are None where no record has one. A batch is owned by whoever holds it:
    nobody changes the lists after handing the batch on.
    """

    values: list[Any]
    timestamps: list[int] | None = None
    keys: list[Any] | None = None
    kinds: list[RowKind] | None = None
    origin: Origin | None = None
    origins: list[RecordOrigin | None] | None = None
    """Behind an exchange, where state asks for them."""

    def __len__(self) -> int:
        return len(self.values)

    def part(self, picked: slice) -> Batch:
        """Some of its records, without `origin`."""
        return Batch(
            self.values[picked],
            self.timestamps[picked] if self.timestamps is not None else None,
            self.keys[picked] if self.keys is not None else None,
            self.kinds[picked] if self.kinds is not None else None,
            origins=self.origins[picked] if self.origins is not None else None,
        )


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
    """The input sends nothing for now and does not hold the watermark back."""

    idle: bool


class EndOfInput(msgspec.Struct, frozen=True, tag=True):
    """Nothing follows."""


Control: TypeAlias = Watermark | Barrier | Idle | EndOfInput
Element: TypeAlias = Batch | Control
