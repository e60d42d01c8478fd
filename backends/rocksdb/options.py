"""Options of the RocksDB backend, under Flink's keys; sizes are per subtask."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidegate.backends.rocksdb.metrics import RocksDBMetrics
from tidegate.errors import ConfigError
from tidegate.options import check_ranges, option

__all__ = ["CompactionStyle", "Compression", "LogLevel", "RocksDBOptions"]

_KEY: Final = "state.backend.rocksdb."
_MB: Final = 1024 * 1024
_MOST_LEVELS: Final = 7


class CompactionStyle(Enum):
    """Which files are merged. RocksDB's FIFO is left out, as it deletes the oldest files, which are state."""

    LEVEL = "level"
    UNIVERSAL = "universal"


class Compression(Enum):
    """How blocks of data files are compressed."""

    NO_COMPRESSION = "none"
    SNAPPY_COMPRESSION = "snappy"
    ZLIB_COMPRESSION = "zlib"
    BZLIB2_COMPRESSION = "bz2"
    LZ4_COMPRESSION = "lz4"
    LZ4HC_COMPRESSION = "lz4hc"
    ZSTD_COMPRESSION = "zstd"


class LogLevel(Enum):
    """How much RocksDB writes into its log."""

    DEBUG_LEVEL = "debug"
    INFO_LEVEL = "info"
    WARN_LEVEL = "warn"
    ERROR_LEVEL = "error"
    FATAL_LEVEL = "fatal"
    HEADER_LEVEL = "header"


@dataclass(frozen=True, slots=True)
class RocksDBOptions(RocksDBMetrics):
    """How a database uses memory, disk and threads.

    Memory comes from the first of these that is set: `memory.fixed-per-slot`; the slot's share of
    `taskmanager.memory.managed.size`, unless `memory.managed` is false; what the databases of a process share by default
    (see `memory.py`). A size that is set by itself is stronger than the share it would have of that memory.
    """

    memory_managed: bool = option(
        _KEY + "memory.managed",
        True,
        "whether memory sizes follow from the slot's share of taskmanager.memory.managed.size, if that is set",
    )
    memory_fixed_bytes: int | None = option(
        _KEY + "memory.fixed-per-slot",
        None,
        "memory of a subtask's database, instead of a share of taskmanager.memory.managed.size",
    )
    block_cache_bytes: int | None = option(
        _KEY + "block.cache-size",
        None,
        "size of the block cache; default: a share of the memory",
    )
    block_bytes: int = option(
        _KEY + "block.blocksize", 4 * 1024, "size of a block, the unit of reading and compression"
    )
    bloom_filter: bool = option(_KEY + "use-bloom-filter", True, "whether SST files have a bloom filter")
    bloom_filter_bits: int = option(
        _KEY + "bloom-filter.bits-per-key",
        10,
        "bits per key of the bloom filter; 10 bits give 1 % false positives",
    )
    write_buffer_bytes: int | None = option(
        _KEY + "writebuffer.size",
        None,
        "size of a write buffer (memtable); default: a share of the memory, at most 32 mb without a limit",
    )
    write_buffers: int = option(
        _KEY + "writebuffer.count", 2, "maximum number of write buffers, including the active one"
    )
    merged_write_buffers: int = option(
        _KEY + "writebuffer.number-to-merge",
        1,
        "minimum number of write buffers that are merged in one flush",
    )
    file_bytes: int = option(
        _KEY + "compaction.level.target-file-size-base",
        16 * _MB,
        "target size of an SST file, the unit of uploads",
    )
    level_bytes: int = option(
        _KEY + "compaction.level.max-size-level-base",
        256 * _MB,
        "maximum size of the first level without overlaps",
    )
    dynamic_levels: bool = option(
        _KEY + "compaction.level.use-dynamic-size",
        False,
        "whether level sizes are derived from the size of the last level",
    )
    compaction_style: CompactionStyle | None = option(
        _KEY + "compaction.style",
        None,
        "LEVEL or UNIVERSAL; default: LEVEL, on Spark UNIVERSAL. FIFO would delete state and is refused",
    )
    threads: int = option(_KEY + "thread.num", 2, "threads for flushes and compactions")
    open_files: int = option(
        _KEY + "files.open", -1, "maximum number of open files of a database; -1 for no limit", least=-1
    )
    compression: tuple[Compression, ...] = option(
        _KEY + "compression.per.level",
        (Compression.LZ4_COMPRESSION,),
        "compression of each level from level 0 on, separated by ';': NO, SNAPPY, ZLIB, BZLIB2, LZ4, LZ4HC or "
        "ZSTD, each with _COMPRESSION; the last one applies to all further levels",
    )
    log_level: LogLevel = option(
        _KEY + "log.level",
        LogLevel.INFO_LEVEL,
        "log level of RocksDB: DEBUG_LEVEL, INFO_LEVEL, WARN_LEVEL, ERROR_LEVEL, FATAL_LEVEL or HEADER_LEVEL",
    )
    log_dir: str | None = option(
        _KEY + "log.dir",
        None,
        "existing directory for RocksDB's log; default: the database directory, deleted with it",
    )
    log_file_bytes: int = option(
        _KEY + "log.max-file-size",
        _MB,
        "size at which RocksDB's log file is rotated; 0 for no rotation",
        least=0,
    )
    log_files: int = option(_KEY + "log.file-num", 1, "log files that are kept")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.open_files == 0:
            raise ConfigError(f"option '{_KEY}files.open' is out of range; got 0; expected -1 or at least 1")
        if not 1 <= len(self.compression) <= _MOST_LEVELS:
            raise ConfigError(
                f"option '{_KEY}compression.per.level' names {len(self.compression)} levels; expected 1 to {_MOST_LEVELS}"
            )
        if self.merged_write_buffers >= self.write_buffers and self.merged_write_buffers > 1:
            raise ConfigError(
                f"option '{_KEY}writebuffer.number-to-merge' is out of range; got {self.merged_write_buffers}; expected "
                f"less than {_KEY}writebuffer.count, which is {self.write_buffers}"
            )

    def memory(self, managed_bytes: int | None) -> int | None:
        """The memory that sizes follow from, given the slot's share; None for what the databases of a process share.

        Example:
            >>> RocksDBOptions().memory(64), RocksDBOptions(memory_managed=False).memory(64)
            (64, None)
            >>> RocksDBOptions(memory_fixed_bytes=32).memory(64)
            32
        """
        if self.memory_fixed_bytes is not None:
            return self.memory_fixed_bytes
        return managed_bytes if self.memory_managed else None
