"""RocksDB client, the only module that imports rocksdict: raw bytes, tidegate's errors, no write-ahead log."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import dropwhile, takewhile
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
from tidegate.backends.rocksdb.metrics import STATISTICS
from tidegate.backends.rocksdb.options import CompactionStyle, LogLevel, RocksDBOptions
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import StateCorruptError, StateFormatError, TidegateError, UnavailableError

__all__ = ["MAX_ENTRY_BYTES", "RocksStore", "refuse_large"]

MAX_ENTRY_BYTES: Final = 2**31 - 1
"""RocksDB counts in 32 bits; programs that read it with a signed number do not see more than this."""

_MERGING: Final = "rocksdb.num-running-compactions"
_MERGE_S: Final = 0.002

_FILTER_SHARE: Final = 0.02
"""Of a write buffer, for its filter: about 16 bits for each small row."""

_MOST_BY_DEFAULT: Final = 32 * 1024 * 1024
"""Of a write buffer, if nothing limits the memory."""

_COUNT: Final = re.compile(r"^(\S+) COUNT : (\d+)$", re.MULTILINE)

_LOG_LEVEL: Final = """[Version]
  options_file_version=1.1
[DBOptions]
  info_log_level={level}
[CFOptions "default"]
"""
"""A file of options: rocksdict 0.3.29 has no method for this one."""

_LOCK: Final = struct.Struct("@hhqqi4x")
"""How the system describes a lock: kind, origin, start, length, owner."""


class RocksStore:
    """An open database in a private directory.

    One that is `brief` is closed soon and opened again from its files. It merges files of like size instead of those
    that overlap, which would be all of them each time, and ends what it has begun to merge before it closes.

    Raises:
        StateCorruptError: the directory has files that are not a database.
        UnavailableError: the disk is full, or another process uses the directory; the message names it.
    """

    def __init__(
        self,
        directory: Path,
        options: RocksDBOptions,
        memory_bytes: int | None = None,
        *,
        brief: bool = False,
    ) -> None:
        self._directory = directory
        self.brief = brief
        self._shown = options.metrics
        self._last: Mapping[str, int] | None = None
        self._options = _options(options, memory_bytes, brief=brief)
        return_large_blocks()
        try:
            self._db = Rdict(str(directory), options=self._options)
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

    def items(self, first: bytes, last: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Entries with first <= key < last of the moment of the call, ascending or in reverse."""
        with self._translated("read"):
            found: Iterator[tuple[Any, Any]] = self._db.items(
                backwards=reverse, from_key=last if reverse else first
            )
        # An upper bound in ReadOptions does not outlive them in rocksdict 0.3.29: iterators then end anywhere.
        if not reverse:
            return takewhile(lambda item: item[0] < last, found)
        below = dropwhile(lambda item: item[0] == last, found)
        return takewhile(lambda item: item[0] >= first, below)

    def delete_range(self, first: bytes, last: bytes) -> None:
        """Remove first <= key < last."""
        with self._translated("write"):
            self._db.delete_range(first, last, self._write_options)

    def checkpoint(self, directory: Path) -> None:
        """Hard-link a consistent copy of everything into `directory`, which must not exist."""
        with self._translated("write"):
            self._db.flush()
            Checkpoint(self._db).create_checkpoint(str(directory))

    def metrics(self) -> Mapping[str, Callable[[], int]]:
        """Gauges of the enabled metrics; a closed database reports its last values."""
        return {name: partial(self._figure, name) for name in self._shown}

    def close(self) -> None:
        """Flush the memtables and release the files."""
        with self._translated("write"):
            self._last = {name: self._figure(name) for name in self._shown}
            if self.brief:
                self._db.flush()
                # A compaction that is interrupted starts again each time, and never completes.
                while self._db.property_int_value(_MERGING):
                    SYSTEM_CLOCK.sleep(_MERGE_S)
            self._db.close()

    def _figure(self, name: str) -> int:
        if self._last is not None:
            return self._last[name]
        if name not in STATISTICS:
            return self._db.property_int_value(f"rocksdb.{name}") or 0
        counts = dict(_COUNT.findall(self._options.get_statistics() or ""))
        return int(counts[STATISTICS[name]])

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise UnavailableError(
                f"RocksDB in {self._directory} failed to {doing}: {error}; check the local disk"
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
            f"RocksDB in {directory} cannot be opened: {reason}; free space on the local disk"
        )
    holder = _holder(directory / "LOCK", reason)
    if holder is not None:
        return UnavailableError(
            f"the RocksDB directory {directory} is in use by {holder}; expected one run at a time; stop the other "
            "run or set another directory"
        )
    return StateCorruptError(
        f"the RocksDB files in {directory} cannot be opened: {reason}; restore an older checkpoint"
    )


def _holder(lock: Path, reason: str) -> str | None:
    """Who has the lock of a database, None if it was not opened for another reason."""
    if "lock hold by current process" in reason:
        # Looking at the file would not do: closing it again releases the lock of the whole process.
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


def _options(options: RocksDBOptions, memory_bytes: int | None, *, brief: bool) -> Options:
    found = _logging(options)
    style = options.compaction_style or (CompactionStyle.UNIVERSAL if brief else CompactionStyle.LEVEL)
    found.set_compaction_style(getattr(DBCompactionStyle, style.value)())
    if brief:
        found.set_stats_dump_period_sec(0)
        found.set_stats_persist_period_sec(0)
        found.set_skip_stats_update_on_db_open(True)
    if STATISTICS.keys() & set(options.metrics):
        found.enable_statistics()
    cache = _set_memory(found, options, memory_bytes)
    found.set_block_based_table_factory(_blocks(options, cache))
    found.create_if_missing(True)
    # A filter over what is not in a file yet: searching that for a key it does not hold costs as much as writing one.
    found.set_memtable_whole_key_filtering(True)
    found.set_memtable_prefix_bloom_ratio(_FILTER_SHARE)
    found.set_max_write_buffer_number(options.write_buffers)
    found.set_min_write_buffer_number_to_merge(options.merged_write_buffers)
    found.set_target_file_size_base(options.file_bytes)
    found.set_max_bytes_for_level_base(options.level_bytes)
    found.set_level_compaction_dynamic_level_bytes(options.dynamic_levels)
    found.set_max_background_jobs(options.threads)
    found.set_max_open_files(options.open_files)
    kinds = [getattr(DBCompressionType, each.value)() for each in options.compression]
    found.set_compression_type(kinds[-1])
    if len(kinds) > 1:
        found.set_compression_per_level(kinds)
    return found


def _logging(options: RocksDBOptions) -> Options:
    """Options that say how much is logged, and where."""
    if options.log_level is LogLevel.INFO_LEVEL:
        found = Options(raw_mode=True)
    else:
        with tempfile.TemporaryDirectory(prefix="tidegate-options-") as directory:
            Path(directory, "OPTIONS-000001").write_text(_LOG_LEVEL.format(level=options.log_level.name))
            found, _ = Options.load_latest(directory)
    if options.log_dir is not None:
        found.set_db_log_dir(options.log_dir)
    found.set_keep_log_file_num(options.log_files)
    found.set_max_log_file_size(options.log_file_bytes)
    return found


def _set_memory(found: Options, options: RocksDBOptions, memory_bytes: int | None) -> Cache:
    """Set the sizes of the write buffers; returns the block cache. A size that was set is stronger than a share."""
    if memory_bytes is not None:
        memory = shares(memory_bytes)
        cache = Cache(options.block_cache_bytes or memory.blocks)
        usual = memory.writes // options.write_buffers
    else:
        memory = shares(default_memory())
        usual = min(_MOST_BY_DEFAULT, memory.writes // 2)
        if options.block_cache_bytes is None:
            cache, buffers = _shared(default_memory())
            found.set_write_buffer_manager(buffers)
        else:
            cache = Cache(options.block_cache_bytes)
    found.set_write_buffer_size(options.write_buffer_bytes or usual)
    return cache


def _blocks(options: RocksDBOptions, cache: Cache) -> BlockBasedOptions:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(options.block_bytes)
    blocks.set_cache_index_and_filter_blocks(True)
    if options.bloom_filter:
        blocks.set_bloom_filter(options.bloom_filter_bits, False)
    return blocks
