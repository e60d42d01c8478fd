"""Operator state in a checkpoint: lists of items without a key.

A short list is stored in the metadata. A long list is stored in a file, and the metadata refers to a range of it, so
that items can be redistributed without being read.

Example:
    >>> from tidegate.backends.storage import MemoryStorage, StorageFiles
    >>> files = StorageFiles(MemoryStorage().blobs, "run-1/shared", inline_threshold=4)
    >>> held = written(OperatorList("queue", (b"abc", b"def", b"ghi")), files)
    >>> held.items, held.count
    ((), 3)
    >>> read(held.part(1, 3), files).items
    (b'def', b'ghi')
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from tidegate.backends.spi import Chunk, InlineChunk, SnapshotFiles, StoredChunk
from tidegate.keys import KeyGroupRange

__all__ = ["DECLARED", "Dealt", "OperatorList", "Piece", "joined", "read", "written"]

Dealt = Literal["split", "union", "broadcast", "key group"]
"""How a restore redistributes the lists of all subtasks. split: each subtask gets its own list if the parallelism is
unchanged, otherwise an equal share of all items in order; union: each gets all items; broadcast: each gets one of the
lists, which are equal; key group: each gets the items of its key groups."""

DECLARED: Final = "state:"
"""Prefix of the names of state that programs declare; operators use other names."""


class Piece(msgspec.Struct, frozen=True):
    """The items of a chunk from `first`, before `last`."""

    chunk: Chunk
    first: int
    last: int


class OperatorList(msgspec.Struct, frozen=True):
    """Named operator state of one subtask: items without a key."""

    name: str
    items: tuple[bytes, ...]
    dealt: Dealt = "split"
    stored: str | msgspec.UnsetType = msgspec.UNSET
    """The fingerprint of the state the items belong to, if they are of a state that a program declares."""
    pieces: tuple[Piece, ...] | msgspec.UnsetType = msgspec.UNSET
    """The ranges of files that hold the items in order, if they are not in `items`."""
    groups: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """The key group of each item, ascending, if they are redistributed by key group."""

    @property
    def declared(self) -> str | None:
        """The name that a program gave to the state; None if it is not a program's."""
        return self.name.removeprefix(DECLARED) if self.name.startswith(DECLARED) else None

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self.items) + sum(piece.last - piece.first for piece in self.pieces or ())

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that hold them."""
        chunks = (piece.chunk for piece in self.pieces or ())
        return tuple(chunk.name for chunk in chunks if isinstance(chunk, StoredChunk))

    def part(self, first: int, last: int) -> OperatorList:
        """The items from `first`, before `last`."""
        groups = self.groups and self.groups[first:last]
        if not self.pieces:
            return msgspec.structs.replace(self, items=self.items[first:last], groups=groups)
        taken: list[Piece] = []
        for piece in self.pieces:
            length = piece.last - piece.first
            start, end = max(first, 0), min(last, length)
            if start < end:
                taken.append(Piece(piece.chunk, piece.first + start, piece.first + end))
            first, last = first - length, last - length
        return msgspec.structs.replace(self, pieces=tuple(taken) or msgspec.UNSET, groups=groups)

    def of_groups(self, mine: KeyGroupRange) -> OperatorList:
        """The items of some key groups."""
        groups = self.groups or ()
        return self.part(bisect_left(groups, mine.first), bisect_left(groups, mine.last))


def joined(lists: Sequence[OperatorList]) -> OperatorList:
    """All items of lists of one name, in order."""
    groups = lists[0].groups
    if groups is not msgspec.UNSET:
        groups = tuple(group for each in lists for group in each.groups or ())
    if not any(each.pieces for each in lists):
        items = tuple(item for each in lists for item in each.items)
        return msgspec.structs.replace(lists[0], items=items, groups=groups)
    pieces = tuple(piece for each in lists for piece in (each.pieces or _inline(each.items)))
    return msgspec.structs.replace(lists[0], items=(), pieces=pieces, groups=groups)


def written(held: OperatorList, files: SnapshotFiles) -> OperatorList:
    """The same list with its items in a file, unless they are few.

    Raises:
        UnavailableError: the storage did not take the file.
    """
    if held.pieces or not held.items:
        return held
    chunk = files.store(_ENCODER.encode(held.items))
    if isinstance(chunk, InlineChunk):
        return held
    return msgspec.structs.replace(held, items=(), pieces=(Piece(chunk, 0, len(held.items)),))


def read(held: OperatorList, files: SnapshotFiles) -> OperatorList:
    """The same list with its items in memory.

    Raises:
        StateCorruptError: a file is gone or damaged.
    """
    if not held.pieces:
        return held
    items = tuple(item for piece in held.pieces for item in _items(piece, files))
    return msgspec.structs.replace(held, items=items, pieces=msgspec.UNSET)


def _inline(items: tuple[bytes, ...]) -> Iterable[Piece]:
    return (Piece(InlineChunk(_ENCODER.encode(items)), 0, len(items)),) if items else ()


def _items(piece: Piece, files: SnapshotFiles) -> list[bytes]:
    return _DECODER.decode(files.fetch(piece.chunk))[piece.first : piece.last]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[bytes])
