"""Heap state backend: state in memory, bases in the checkpoint's metadata.

Nothing but the metadata is written for a base, so each state is limited in size: a checkpoint of more is declined, and
the job continues without. Larger state belongs to `filesystem`. All value states of an operator are one state here, as
they share their entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from tidegate.backends.heap.materialisation import MemoryMaterialisation, kept_entries, merged, read_base
from tidegate.backends.heap.options import HeapOptions
from tidegate.backends.keyed.address import ROWS, state_of
from tidegate.backends.keyed.log import size_of
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
from tidegate.options import Layer, load

__all__ = ["HeapBackend", "HeapMaterialisation"]

_REMEDY: Final = "raise state.backend.heap.max-state, or use backend filesystem or rocksdb"


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
        return HeapMaterialisation(kept_entries(base, key_groups, context), limit)

    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        """The base's entries."""
        return read_base(base, context)


class HeapMaterialisation(MemoryMaterialisation):
    """In-memory entries; reports when a state exceeds its limit."""

    def __init__(self, entries: Iterable[Entry], limit: int) -> None:
        super().__init__(HeapBackend.name, _inline, entries)
        self._limit = limit
        self._room = limit - size_of(self._layers[0])
        """How many bytes may be written before some state can be too large; below 0, the sizes have to be checked."""

    def excess(self) -> Excess | None:
        """The first state that is larger than the limit."""
        if self._room >= 0:
            return None
        held = merged(self._layers)
        total = size_of(held)
        sizes = Counter({ROWS: total}) if total <= self._limit else _sizes(held)
        self._room = self._limit - max(sizes.values())
        for state, size in sizes.items():
            if size > self._limit:
                return Excess(state, size, self._limit, _REMEDY)
        return None

    def _write(self, written: dict[Address, bytes | None]) -> None:
        self._room -= size_of(written)
        super()._write(written)


def _sizes(held: Mapping[Address, bytes | None]) -> Counter[int]:
    sizes: Counter[int] = Counter()
    for at, value in held.items():
        sizes[state_of(at)] += len(at) + len(value or b"")
    return sizes


def _inline(_: SnapshotFiles, data: bytes) -> Chunk:
    return InlineChunk(data)
