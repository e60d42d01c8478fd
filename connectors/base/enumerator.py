"""Enumerator for sources whose splits are all known at the start.

Splits are assigned round-robin: each reader gets its share at its first request, and the signal of no more splits.
The assignment depends only on the list and the parallelism, so a run is repeatable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tidegate.connectors.spi import EnumeratorContext, Source, Split, SplitEnumerator
from tidegate.errors import StateFormatError
from tidegate.ids import CheckpointId, SplitId

__all__ = ["ListEnumerator", "all_splits"]

S = TypeVar("S", bound=Split)


class _State(msgspec.Struct, Generic[S], frozen=True, tag_field="v", tag=1, omit_defaults=True):
    splits: list[S]
    end: Any = None


class ListEnumerator(SplitEnumerator[S]):
    """Deals a fixed list of splits.

    Args:
        context: How to reach the readers.
        splits: All splits; ignored when a snapshot is restored.
        split_type: What a snapshot holds.
        restored: The snapshot of an earlier enumerator.
        end: Where the list ends, for a source that continues from there; also ignored when a snapshot is restored.

    Raises:
        StateFormatError: the snapshot was written by another version or for another source.
    """

    def __init__(
        self,
        context: EnumeratorContext[S],
        splits: Sequence[S],
        split_type: type[S],
        restored: bytes | None = None,
        end: Any = None,
    ) -> None:
        self._context = context
        known = _State(list(splits), end) if restored is None else _decode(restored, split_type)
        self._pending: dict[SplitId, S] = {split.id: split for split in known.splits}
        self._end = known.end
        self._shares: list[list[S]] | None = None

    def request(self, reader: int) -> None:
        """Assign the reader its splits; a repeated call assigns the splits given back since."""
        if self._shares is None:
            splits, readers = list(self._pending.values()), self._context.parallelism
            self._shares = [splits[index::readers] for index in range(readers)]
        share, self._shares[reader] = self._shares[reader], []
        for split in share:
            del self._pending[split.id]
        if share:
            self._context.assign(reader, share)
        self._context.no_more_splits(reader)

    def give_back(self, splits: Sequence[S]) -> None:
        """Take splits back, with the positions of their readers. The splits are distributed again."""
        self._pending.update((split.id, split) for split in splits)
        self._shares = None

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """Every split that is not assigned."""
        return msgspec.msgpack.encode(_State(list(self._pending.values()), self._end))

    def pending(self) -> list[SplitId]:
        """Every split that is not assigned."""
        return list(self._pending)

    def end_position(self) -> Any:
        """The end of the list."""
        return self._end


def all_splits(source: Source[S]) -> list[S]:
    """All splits of a source at its first start, as for a single reader; raises as the enumerator does."""
    assigned = _SingleReader[S]()
    enumerator = source.open_enumerator(assigned, None)
    try:
        enumerator.start()
        known = -1
        while len(assigned.splits) > known:
            known = len(assigned.splits)
            enumerator.request(0)
    finally:
        enumerator.close()
    return assigned.splits


class _SingleReader(Generic[S]):
    """Enumerator context of a single reader, which collects all splits."""

    parallelism = 1
    owner = ""

    def __init__(self) -> None:
        self.splits: list[S] = []

    def assign(self, reader: int, splits: Sequence[S]) -> None:
        self.splits += splits

    def no_more_splits(self, reader: int) -> None:
        pass

    def send_event(self, reader: int, event: bytes) -> None:
        pass


def _decode(data: bytes, split_type: type[S]) -> _State[S]:
    wanted: Any = _State[split_type]  # type: ignore[valid-type]  # known only when it runs
    try:
        state: _State[S] = msgspec.msgpack.decode(data, type=wanted)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"the list of splits cannot be read ({error}); expected version 1 with {split_type.__name__}; "
            "restore an older checkpoint or run the version that wrote it"
        ) from error
    return state
