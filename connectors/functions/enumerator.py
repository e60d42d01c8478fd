"""Enumerator of a source function: assigns one instance to each reader."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.connectors.functions.split import FunctionSplit, redistributed
from tidegate.connectors.spi import EnumeratorContext, SplitEnumerator
from tidegate.ids import CheckpointId

__all__ = ["FunctionEnumerator"]


class FunctionEnumerator(SplitEnumerator[FunctionSplit]):
    """One split per instance; after a restore at another parallelism their lists are redistributed."""

    def __init__(
        self, context: EnumeratorContext[FunctionSplit], parallel: bool, restored: bytes | None
    ) -> None:
        self._context = context
        self._instances = context.parallelism if parallel else 1
        self._known = list(_SPLITS.decode(restored)) if restored is not None else []
        self._redistributed = False

    def request(self, reader: int) -> None:
        """Assign the reader's instance, if it has one, and signal no more splits."""
        if not self._redistributed:
            self._redistributed = True
            self._known = redistributed(sorted(self._known, key=lambda split: int(split.id)), self._instances)
        mine = [split for split in self._known if int(split.id) == reader]
        if mine:
            self._known.remove(mine[0])
            self._context.assign(reader, mine)
        self._context.no_more_splits(reader)

    def give_back(self, splits: Sequence[FunctionSplit]) -> None:
        """Take the readers' instances back."""
        self._known += splits

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """The instances that are not assigned."""
        return msgspec.msgpack.encode(self._known)


_SPLITS = msgspec.msgpack.Decoder(list[FunctionSplit])
