"""The heap backend: state in memory, bases inside the checkpoint's metadata.

Nothing but the metadata is written for a base, so each state is limited in size: a checkpoint of more is declined, and
the job goes on without. Larger state belongs to `filesystem`. All value states of an operator are one state here, as
they share their entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from tidegate.backends.heap.materialisation import MemoryMaterialisation, kept_entries, read_base
from tidegate.backends.keyed.address import state_of
from tidegate.backends.spi import (
    Address,
    Backend,
    BackendContext,
    BaseHandle,
    Chunk,
    Entry,
    Excess,
    InlineChunk,
    SnapshotFiles,
)
from tidegate.keys import KeyGroupRange
from tidegate.options import Layer, load, option

__all__ = ["HeapBackend", "HeapMaterialisation", "HeapOptions"]

_REMEDY: Final = "raise state.backend.heap.max-state, or use backend filesystem or rocksdb"


@dataclass(frozen=True, slots=True)
class HeapOptions:
    """Options of the heap backend."""

    max_state_bytes: int = option(
        "state.backend.heap.max-state", 5 * 1024 * 1024, "how large one state of a subtask may become"
    )


@dataclass(frozen=True, slots=True)
class HeapBackend(Backend):
    """State in memory; bases in the metadata.

    Example:
        >>> HeapBackend().name
        'heap'
    """

    name: ClassVar[str] = "heap"

    def open(
        self, base: BaseHandle | None, key_groups: KeyGroupRange, context: BackendContext
    ) -> HeapMaterialisation:
        """The base's entries in memory."""
        limit = load(HeapOptions, Layer("backend options", context.options)).max_state_bytes
        return HeapMaterialisation(dict(kept_entries(base, key_groups, context)), limit)

    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        """The base's entries."""
        return read_base(base, context)


class HeapMaterialisation(MemoryMaterialisation):
    """Entries in memory that knows how large each of its states is."""

    def __init__(self, entries: Mapping[Address, bytes], limit: int) -> None:
        super().__init__(HeapBackend.name, _inline, entries.items())
        self._limit = limit
        self._sizes: Counter[int] = Counter()
        for at, value in entries.items():
            self._sizes[state_of(at)] += _size(at, value)

    def apply(self, entries: Iterable[Entry]) -> None:
        """Write and weigh."""
        written = dict(entries)
        for (at, value), old in zip(written.items(), self.get_many(list(written)), strict=True):
            self._sizes[state_of(at)] += _size(at, value) - _size(at, old)
        super().apply(written.items())

    def excess(self) -> Excess | None:
        """The first state that is larger than the limit."""
        for state, size in self._sizes.items():
            if size > self._limit:
                return Excess(state, size, self._limit, _REMEDY)
        return None


def _size(at: Address, value: bytes | None) -> int:
    return len(at) + len(value) if value is not None else 0


def _inline(_: SnapshotFiles, data: bytes) -> Chunk:
    return InlineChunk(data)
