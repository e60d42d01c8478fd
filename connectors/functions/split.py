"""Checkpointed state of a source function: emitted records that were not taken yet.

Example:
    >>> halves = redistributed([FunctionSplit(id="0", items=(b"a", b"b"))], 2)
    >>> [split.items for split in halves]
    [(b'a',), (b'b',)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.connectors.spi import Split
from tidegate.elements import Idle, Watermark
from tidegate.ids import SplitId
from tidegate.serde import codec_for

__all__ = ["Emission", "FunctionSplit", "Record", "pack", "redistributed", "unpack"]

Record = tuple[Any, int | None]
"""A value and its time."""

Emission = Record | Watermark | Idle


class FunctionSplit(Split, frozen=True, tag_field="v", tag=1):
    """One instance of a function: the emissions that were not taken, and whether `run` has returned."""

    items: tuple[bytes, ...] = ()
    """The list of a `ListCheckpointed`, where the checkpoint was taken before that was operator state; else empty."""
    emitted: tuple[bytes, ...] = ()
    returned: bool = False


def redistributed(splits: Sequence[FunctionSplit], instances: int) -> list[FunctionSplit]:
    """As many splits as there shall be instances; lists are kept if that is their number, otherwise redistributed."""
    if len(splits) == instances:
        return list(splits)
    items = [item for split in splits for item in split.items]
    emitted = [each for split in splits for each in split.emitted]
    returned = bool(splits) and all(split.returned for split in splits)
    bounds = [len(items) * number // instances for number in range(instances + 1)]
    return [
        FunctionSplit(
            id=SplitId(str(number)),
            items=tuple(items[bounds[number] : bounds[number + 1]]),
            emitted=tuple(emitted) if number == 0 else (),
            returned=returned,
        )
        for number in range(instances)
    ]


def pack(emission: Emission) -> bytes:
    """An emission as bytes."""
    match emission:
        case Watermark():
            return _CODEC.encode(("watermark", emission.timestamp))
        case Idle():
            return _CODEC.encode(("idle", emission.idle))
        case (value, timestamp):
            return _CODEC.encode(("record", value, timestamp))


def unpack(data: bytes) -> Emission:
    """The emission of bytes made by `pack`."""
    match _CODEC.decode(data):
        case ("watermark", timestamp):
            return Watermark(timestamp)
        case ("idle", idle):
            return Idle(idle)
        case (_, value, timestamp):
            return value, timestamp
    raise AssertionError("packed by this module")


_CODEC = codec_for(None)
