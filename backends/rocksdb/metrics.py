"""Figures of a database for `/metrics`, each switched on by a key of Flink's.

A property is asked of the database whenever the run is shown; statistics are counted while it works, which costs a few
percent, and only if one of them is switched on.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from tidegate.options import option

__all__ = ["STATISTICS", "RocksDBMetrics"]

_KEY: Final = "state.backend.rocksdb.metrics."

STATISTICS: Final = {
    "block-cache-hit": "rocksdb.block.cache.hit",
    "block-cache-miss": "rocksdb.block.cache.miss",
    "bloom-filter-useful": "rocksdb.bloom.filter.useful",
    "bytes-read": "rocksdb.bytes.read",
    "bytes-written": "rocksdb.bytes.written",
    "compaction-read-bytes": "rocksdb.compact.read.bytes",
    "compaction-write-bytes": "rocksdb.compact.write.bytes",
    "stall-micros": "rocksdb.stall.micros",
}
"""What RocksDB calls the figures that it counts; all others are properties named `rocksdb.<name>`."""


def _metric(name: str, doc: str) -> Any:
    return option(_KEY + name, False, f"metric: {doc}")


@dataclass(frozen=True, slots=True)
class RocksDBMetrics:
    """Which figures are shown."""

    num_immutable_mem_table: bool = _metric(
        "num-immutable-mem-table", "write buffers that are full and not in a file yet"
    )
    mem_table_flush_pending: bool = _metric(
        "mem-table-flush-pending", "1 if a write buffer waits to be written to a file"
    )
    compaction_pending: bool = _metric("compaction-pending", "1 if files wait to be merged")
    background_errors: bool = _metric("background-errors", "errors of flushes and compactions")
    cur_size_active_mem_table: bool = _metric(
        "cur-size-active-mem-table", "bytes in the write buffer being written to"
    )
    cur_size_all_mem_tables: bool = _metric(
        "cur-size-all-mem-tables", "bytes in write buffers that are not in a file yet"
    )
    size_all_mem_tables: bool = _metric("size-all-mem-tables", "bytes in all write buffers")
    num_entries_active_mem_table: bool = _metric(
        "num-entries-active-mem-table", "entries in the write buffer being written to"
    )
    num_entries_imm_mem_tables: bool = _metric(
        "num-entries-imm-mem-tables", "entries in write buffers that are full"
    )
    num_deletes_active_mem_table: bool = _metric(
        "num-deletes-active-mem-table", "deletions in the write buffer being written to"
    )
    num_deletes_imm_mem_tables: bool = _metric(
        "num-deletes-imm-mem-tables", "deletions in write buffers that are full"
    )
    estimate_num_keys: bool = _metric("estimate-num-keys", "about how many keys there are")
    estimate_table_readers_mem: bool = _metric(
        "estimate-table-readers-mem", "bytes of indexes and filters outside of the block cache"
    )
    num_snapshots: bool = _metric("num-snapshots", "snapshots of the database that are in use")
    num_live_versions: bool = _metric("num-live-versions", "versions of the set of files that are in use")
    estimate_live_data_size: bool = _metric(
        "estimate-live-data-size", "about how many bytes of data there are"
    )
    total_sst_files_size: bool = _metric(
        "total-sst-files-size", "bytes of all data files, those that an iterator still reads included"
    )
    live_sst_files_size: bool = _metric(
        "live-sst-files-size", "bytes of the data files of the newest version"
    )
    estimate_pending_compaction_bytes: bool = _metric(
        "estimate-pending-compaction-bytes", "about how many bytes wait to be merged"
    )
    num_running_compactions: bool = _metric("num-running-compactions", "compactions that run")
    num_running_flushes: bool = _metric("num-running-flushes", "flushes that run")
    actual_delayed_write_rate: bool = _metric(
        "actual-delayed-write-rate", "bytes a second that writes are held back to; 0 if they are not"
    )
    is_write_stopped: bool = _metric("is-write-stopped", "1 if writes are stopped")
    block_cache_capacity: bool = _metric("block-cache-capacity", "bytes that the block cache may hold")
    block_cache_usage: bool = _metric("block-cache-usage", "bytes that the block cache holds")
    block_cache_pinned_usage: bool = _metric(
        "block-cache-pinned-usage", "bytes of the block cache that are in use"
    )
    block_cache_hit: bool = _metric("block-cache-hit", "blocks found in the block cache")
    block_cache_miss: bool = _metric("block-cache-miss", "blocks not found in the block cache")
    bloom_filter_useful: bool = _metric("bloom-filter-useful", "reads of a file that its filter spared")
    bytes_read: bool = _metric("bytes-read", "bytes read from the database")
    bytes_written: bool = _metric("bytes-written", "bytes written to the database")
    compaction_read_bytes: bool = _metric("compaction-read-bytes", "bytes that compactions read")
    compaction_write_bytes: bool = _metric("compaction-write-bytes", "bytes that compactions wrote")
    stall_micros: bool = _metric("stall-micros", "microseconds that writes were held back")

    @property
    def metrics(self) -> list[str]:
        """The names of those that are switched on.

        Example:
            >>> RocksDBMetrics(block_cache_hit=True).metrics
            ['block-cache-hit']
        """
        keys = {each.name: each.metadata["key"] for each in fields(RocksDBMetrics)}
        return [key.removeprefix(_KEY) for name, key in keys.items() if getattr(self, name)]
