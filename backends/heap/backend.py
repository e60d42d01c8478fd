"""The heap backend: state in memory, bases inside the checkpoint's metadata.

Nothing but the metadata is written for a base, so it is limited in size; larger state belongs to `filesystem`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tidegate.backends.heap.materialisation import MemoryMaterialisation, open_in_memory, read_base
from tidegate.backends.spi import (
    Address,
    Backend,
    BackendContext,
    BaseHandle,
    Chunk,
    InlineChunk,
    SnapshotFiles,
)
from tidegate.errors import StateFormatError
from tidegate.keys import KeyGroupRange
from tidegate.options import Layer, load, option

__all__ = ["HeapBackend", "HeapOptions"]


@dataclass(frozen=True, slots=True)
class HeapOptions:
    """Options of the heap backend."""

    max_base_bytes: int = option(
        "state.backend.heap.max-base", 5 * 1024 * 1024, "how large the state of one subtask may become"
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
    ) -> MemoryMaterialisation:
        """The base's entries in memory."""
        limit = load(HeapOptions, Layer("backend options", context.options)).max_base_bytes

        def place(_: SnapshotFiles, data: bytes) -> Chunk:
            if len(data) > limit:
                raise StateFormatError(
                    f"state is too large for the heap backend; got {len(data)} bytes; expected at most {limit}; "
                    "use backend filesystem or rocksdb"
                )
            return InlineChunk(data)

        return open_in_memory(self.name, place, base, key_groups, context)

    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        """The base's entries."""
        return read_base(base, context)
