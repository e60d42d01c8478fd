"""The only door to RocksDB: raw bytes in and out, our errors instead of its own, no write-ahead log."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from tidegate.backends.rocksdb.memory import default_memory, return_large_blocks, shares
from tidegate.backends.rocksdb.options import RocksDBOptions
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import StateCorruptError, StateFormatError, TidegateError, UnavailableError

__all__ = ["MAX_ENTRY_BYTES", "RocksStore", "refuse_large"]

MAX_ENTRY_BYTES: Final = 2**31 - 1
"""RocksDB counts in 32 bits; programs that read it with a signed number do not see more than this."""

_MERGING: Final = "rocksdb.num-running-compactions"
_MERGE_S: Final = 0.002

_FILTER_SHARE: Final = 0.02
"""Of a write buffer, for its filter: about 16 bits for each small row."""

_LOCK: Final = struct.Struct("@hhqqi4x")
"""How the system describes a lock: kind, origin, start, length, owner."""


class RocksStore:
    """An open database in a private directory.

    One that is `brief` is closed soon and opened again from its files. It merges files of like size instead of those
    that overlap, which would be all of them each time, and ends what it has begun to merge before it closes.

    Raises:
        StateCorruptError: the directory holds files that are no database.
        UnavailableError: the disk is full, or somebody works in the directory; the message says who.
    """

    def __init__(self, directory: Path, options: RocksDBOptions, *, brief: bool = False) -> None:
        self._directory = directory
        self.brief = brief
        return_large_blocks()
        try:
            self._db = Rdict(str(directory), options=_options(options, brief=brief))
        except Exception as error:
            raise _not_opened(directory, str(error)) from error
        # Lost local writes are rebuilt from the checkpoint, so a write-ahead log would only cost.
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True
        self._db.set_write_options(self._write_options)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys in order."""
        with self._translated("read"):
            found: list[bytes | None] = self._db.get(list(keys))
            return found

    def write(self, entries: Collection[tuple[bytes, bytes | None]]) -> None:
        """Put, or delete where the value is None, in order and at once; all of it or, if it is refused, nothing.

        Raises:
            StateFormatError: a key and its value are too large.
        """
        batch = WriteBatch(raw_mode=True)
        for key, value in entries:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        # A batch leaves out what it cannot hold at all.
        refuse_large(entries, batch.size_in_bytes() if batch.len() == len(entries) else MAX_ENTRY_BYTES + 1)
        with self._translated("write"):
            self._db.write(batch, self._write_options)

    def items(self, first: bytes, last: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries with first <= key < last of the moment of the call, ascending."""
        with self._translated("read"):
            found: Iterator[tuple[Any, Any]] = self._db.items(from_key=first)
        # An upper bound in ReadOptions does not outlive them in rocksdict 0.3.29: iterators then end anywhere.
        return takewhile(lambda item: item[0] < last, found)

    def delete_range(self, first: bytes, last: bytes) -> None:
        """Remove first <= key < last."""
        with self._translated("write"):
            self._db.delete_range(first, last, self._write_options)

    def checkpoint(self, directory: Path) -> None:
        """Hard-link a consistent copy of everything into `directory`, which must not exist."""
        with self._translated("write"):
            self._db.flush()
            Checkpoint(self._db).create_checkpoint(str(directory))

    def close(self) -> None:
        """Write what is in memory and release the files."""
        with self._translated("write"):
            if self.brief:
                self._db.flush()
                # What is cut off in the midst of a merge would be merged again each time, and never to the end.
                while self._db.property_int_value(_MERGING):
                    SYSTEM_CLOCK.sleep(_MERGE_S)
            self._db.close()

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise UnavailableError(
                f"RocksDB in {self._directory} did not {doing}: {error}; see to the local disk"
            ) from error


def refuse_large(entries: Iterable[tuple[bytes, bytes | None]], together: int) -> None:
    """Refuse an entry that is too large; none is larger than all of them `together`.

    Raises:
        StateFormatError: one is.
    """
    if together <= MAX_ENTRY_BYTES:
        return
    size = max(len(key) + len(value or b"") for key, value in entries)
    if size > MAX_ENTRY_BYTES:
        raise StateFormatError(
            f"an entry is too large for RocksDB; got {size} bytes; expected at most {MAX_ENTRY_BYTES}; "
            "spread it over several keys, or use a list or a map"
        )


def _not_opened(directory: Path, reason: str) -> TidegateError:
    if "No space left on device" in reason:
        return UnavailableError(
            f"RocksDB in {directory} did not open: {reason}; free space on the local disk"
        )
    holder = _holder(directory / "LOCK", reason)
    if holder is not None:
        return UnavailableError(
            f"the RocksDB directory {directory} is in use by {holder}; got a second start in it; expected one at a "
            "time; end the other one or name another directory"
        )
    return StateCorruptError(
        f"the RocksDB files in {directory} cannot be opened: {reason}; restore an older checkpoint"
    )


def _holder(lock: Path, reason: str) -> str | None:
    """Who has the lock of a database, None if it was not opened for another reason."""
    if "lock hold by current process" in reason:
        # Looking at the file would not do: closing it again gives up the lock of the whole process.
        return f"this process, pid {os.getpid()}"
    if "While lock file" not in reason:
        return None
    with lock.open("rb+") as file:
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        pid = _LOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))[-1]
    return f"process {pid}" if pid else "another process"


@lru_cache(maxsize=1)
def _shared(memory_bytes: int) -> tuple[Cache, WriteBufferManager]:
    """What the databases of this process share: write buffers count as blocks, and may take half more than they should."""
    memory = shares(memory_bytes)
    cache = Cache(memory.blocks + memory.writes)
    buffers: WriteBufferManager = WriteBufferManager.new_write_buffer_manager_with_cache(
        memory.writes * 2 // 3, False, cache
    )
    return cache, buffers


def _options(options: RocksDBOptions, *, brief: bool) -> Options:
    found = Options(raw_mode=True)
    if brief:
        found.set_compaction_style(DBCompactionStyle.universal())
        found.set_stats_dump_period_sec(0)
        found.set_stats_persist_period_sec(0)
        found.set_skip_stats_update_on_db_open(True)
    if options.block_cache_bytes is None:
        memory = default_memory()
        cache, buffers = _shared(memory)
        found.set_write_buffer_manager(buffers)
        found.set_write_buffer_size(min(options.write_buffer_bytes, shares(memory).writes // 2))
    else:
        cache = Cache(options.block_cache_bytes)
        found.set_write_buffer_size(options.write_buffer_bytes)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_bloom_filter(10, False)
    found.create_if_missing(True)
    # A filter over what is not in a file yet: searching that for a key it does not hold costs as much as writing one.
    found.set_memtable_whole_key_filtering(True)
    found.set_memtable_prefix_bloom_ratio(_FILTER_SHARE)
    found.set_block_based_table_factory(blocks)
    found.set_max_write_buffer_number(options.write_buffers)
    found.set_target_file_size_base(options.file_bytes)
    found.set_max_background_jobs(options.background_jobs)
    found.set_compression_type(DBCompressionType.lz4())
    found.set_keep_log_file_num(1)
    found.set_max_log_file_size(1024 * 1024)
    return found
