"""Filesystem state backend, the default: state in memory, bases as files of the checkpoint storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tidegate.backends.heap.materialisation import MemoryMaterialisation, kept_entries, read_base
from tidegate.backends.spi import Address, Backend, BackendContext, BaseHandle, Chunk, SnapshotFiles
from tidegate.keys import KeyGroupRange

__all__ = ["FilesystemBackend"]


@dataclass(frozen=True, slots=True)
class FilesystemBackend(Backend):
    """State in memory; bases on the storage. It takes no options.

    Example:
        >>> FilesystemBackend().name
        'filesystem'
    """

    name: ClassVar[str] = "filesystem"

    def open(
        self, base: BaseHandle | None, key_groups: KeyGroupRange, context: BackendContext
    ) -> MemoryMaterialisation:
        """The base's entries in memory."""
        return MemoryMaterialisation(self.name, _as_file, kept_entries(base, key_groups, context))

    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        """The base's entries."""
        return read_base(base, context)


def _as_file(files: SnapshotFiles, data: bytes) -> Chunk:
    return files.store(data)
