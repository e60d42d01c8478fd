"""Options of the RocksDB backend; they bound what one subtask takes of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tidegate.backends.rocksdb.memory import shares
from tidegate.options import option

__all__ = ["RocksDBOptions"]


@dataclass(frozen=True, slots=True)
class RocksDBOptions:
    """Sizes per subtask; memory stays below the block cache and all write buffers together.

    Without a block cache of its own a database shares one with all others of the process, which also bounds what their
    write buffers take together: see `memory.py`.
    """

    block_cache_bytes: int | None = option(
        "state.backend.rocksdb.block-cache",
        None,
        "memory for blocks read from disk; default: a part of what the databases of a process share",
    )
    write_buffer_bytes: int = option(
        "state.backend.rocksdb.write-buffer", 32 * 1024 * 1024, "memory for writes before they go to a file"
    )
    write_buffers: int = option("state.backend.rocksdb.write-buffers", 2, "write buffers at the same time")
    file_bytes: int = option(
        "state.backend.rocksdb.file-size", 16 * 1024 * 1024, "size of a data file; the unit of uploads"
    )
    background_jobs: int = option(
        "state.backend.rocksdb.background-jobs", 2, "threads that flush and compact"
    )

    def within(self, memory_bytes: int) -> Self:
        """The same with the sizes that belong to so much memory.

        Example:
            >>> RocksDBOptions().within(64 * 1024 * 1024).write_buffer_bytes // 1024**2
            8
        """
        memory = shares(memory_bytes)
        return replace(
            self,
            block_cache_bytes=memory.blocks,
            write_buffer_bytes=memory.writes // self.write_buffers,
        )
