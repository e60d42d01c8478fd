"""Batch planning of a stream: whole splits, or pieces cut from them, up to a limit.

Pure. An *offset* of the stream holds the remaining splits, each at its position, the snapshot of the enumerator, and the
pieces since the offset before. So a repeated batch reads exactly the same pieces, even if new splits were found.

Example:
    >>> from tidegate.connectors.generator import GeneratorSource
    >>> from tidegate.connectors.base import RangeSplit
    >>> source, left = GeneratorSource(abs, 10), [RangeSplit("0/1", 4, 10)]
    >>> pieces, rest = cut(source, left, shares(source, [None], rows=2, splits=None))
    >>> [(piece.next, piece.stop) for piece in pieces], [(split.next, split.stop) for split in rest]
    ([(4, 6)], [(6, 10)])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tidegate.connectors.spi import Source, Split, SupportsRanges
from tidegate.errors import StateFormatError

__all__ = ["Offset", "cut", "decode_splits", "encode_splits", "shares"]


class Offset(msgspec.Struct, frozen=True, tag_field="v", tag=1, omit_defaults=True):
    """A position of the stream; `pieces` were read since the offset before."""

    rest: tuple[dict[str, Any], ...] = ()
    pieces: tuple[dict[str, Any], ...] = ()
    enumerator: bytes | None = None

    def as_json(self) -> dict[str, Any]:
        """The form that Spark stores."""
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return found

    @staticmethod
    def of(found: dict[str, Any]) -> Offset:
        """Read the result of `as_json`.

        Raises:
            StateFormatError: another version or another source wrote it.
        """
        try:
            return msgspec.convert(found, Offset)
        except msgspec.ValidationError as error:
            raise StateFormatError(
                f"the offset of a stream cannot be read ({error}); expected version 1; run the version that started the "
                "query, or start with a new checkpointLocation"
            ) from error


def encode_splits(splits: Sequence[Split]) -> tuple[dict[str, Any], ...]:
    """Splits as JSON."""
    return tuple(msgspec.to_builtins(split) for split in splits)


def decode_splits(found: Sequence[dict[str, Any]], split_type: type[Split]) -> list[Any]:
    """The splits that `encode_splits` encoded.

    Raises:
        StateFormatError: they are of another source.
    """
    try:
        return [msgspec.convert(each, split_type) for each in found]
    except msgspec.ValidationError as error:
        raise StateFormatError(
            f"an offset holds splits that are not {split_type.__name__} ({error}); the query was started with another "
            "connector; start with a new checkpointLocation"
        ) from error


def shares(
    source: Source[Any], there: Sequence[int | None], *, rows: int | None, splits: int | None
) -> list[int | None]:
    """The number of records to read of each split now; None for the whole split.

    Splits that can be cut share `rows` evenly; a share that one does not need goes to the others. At most `splits` of those
    that cannot be cut are read whole. `there` has the current number of records of a split; None if unknown.
    """
    if not isinstance(source, SupportsRanges):
        whole = len(there) if splits is None else splits
        return [None if index < whole else 0 for index in range(len(there))]
    return list(there) if rows is None else _evenly(there, rows)


def cut(
    source: Source[Any], left: Sequence[Split], wanted: Sequence[int | None]
) -> tuple[list[Split], list[Split]]:
    """The pieces with these numbers of records, and the rest of the splits."""
    pieces, rest = list[Split](), list[Split]()
    for split, share in zip(left, wanted, strict=True):
        if share == 0:
            rest.append(split)
        elif share is None or not isinstance(source, SupportsRanges):
            pieces.append(split)
        else:
            piece, behind = source.bound(split, share)
            pieces.append(piece)
            rest += [] if behind is None else [behind]
    return pieces, rest


def _evenly(there: Sequence[int | None], rows: int) -> list[int | None]:
    found: list[int | None] = [0] * len(there)
    left = rows
    order = sorted(range(len(there)), key=lambda index: (there[index] is None, there[index] or 0))
    for place, index in enumerate(order):
        even = -(-left // (len(order) - place))
        known = there[index]
        found[index] = even if known is None else min(even, known)
        left -= found[index] or 0
    return found
