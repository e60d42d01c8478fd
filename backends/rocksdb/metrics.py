"""RocksDB metrics for `/metrics`, each enabled by a key of Flink's.

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
    """Which RocksDB metrics are reported."""

    num_immutable_mem_table: bool = _metric(
        "num-immutable-mem-table", "immutable memtables that are not flushed yet"
    )
    mem_table_flush_pending: bool = _metric(
        "mem-table-flush-pending", "1 if a memtable flush is pending, otherwise 0"
    )
    compaction_pending: bool = _metric("compaction-pending", "1 if a compaction is pending, otherwise 0")
    background_errors: bool = _metric("background-errors", "background errors of flushes and compactions")
    cur_size_active_mem_table: bool = _metric("cur-size-active-mem-table", "bytes in the active memtable")
    cur_size_all_mem_tables: bool = _metric(
        "cur-size-all-mem-tables",
        "bytes in the active memtable and in immutable memtables that are not flushed yet",
    )
    size_all_mem_tables: bool = _metric(
        "size-all-mem-tables", "bytes in all memtables: active, immutable and pinned"
    )
    num_entries_active_mem_table: bool = _metric(
        "num-entries-active-mem-table", "entries in the active memtable"
    )
    num_entries_imm_mem_tables: bool = _metric(
        "num-entries-imm-mem-tables", "entries in immutable memtables that are not flushed yet"
    )
    num_deletes_active_mem_table: bool = _metric(
        "num-deletes-active-mem-table", "deletions in the active memtable"
    )
    num_deletes_imm_mem_tables: bool = _metric(
        "num-deletes-imm-mem-tables", "deletions in immutable memtables that are not flushed yet"
    )
    estimate_num_keys: bool = _metric("estimate-num-keys", "estimated number of keys")
    estimate_table_readers_mem: bool = _metric(
        "estimate-table-readers-mem", "estimated bytes of index and filter blocks outside the block cache"
    )
    num_snapshots: bool = _metric("num-snapshots", "unreleased snapshots of the database")
    num_live_versions: bool = _metric("num-live-versions", "live versions of the set of SST files")
    estimate_live_data_size: bool = _metric("estimate-live-data-size", "estimated bytes of live data")
    total_sst_files_size: bool = _metric(
        "total-sst-files-size", "bytes of all SST files, including those that only an iterator still reads"
    )
    live_sst_files_size: bool = _metric("live-sst-files-size", "bytes of the SST files of the latest version")
    estimate_pending_compaction_bytes: bool = _metric(
        "estimate-pending-compaction-bytes", "estimated bytes that compactions still have to rewrite"
    )
    num_running_compactions: bool = _metric("num-running-compactions", "running compactions")
    num_running_flushes: bool = _metric("num-running-flushes", "running flushes")
    actual_delayed_write_rate: bool = _metric(
        "actual-delayed-write-rate", "write rate limit in bytes per second; 0 if writes are not delayed"
    )
    is_write_stopped: bool = _metric("is-write-stopped", "1 if writes are stopped, otherwise 0")
    block_cache_capacity: bool = _metric("block-cache-capacity", "capacity of the block cache in bytes")
    block_cache_usage: bool = _metric("block-cache-usage", "bytes in the block cache")
    block_cache_pinned_usage: bool = _metric(
        "block-cache-pinned-usage", "bytes of pinned entries in the block cache"
    )
    block_cache_hit: bool = _metric("block-cache-hit", "block cache hits")
    block_cache_miss: bool = _metric("block-cache-miss", "block cache misses")
    bloom_filter_useful: bool = _metric("bloom-filter-useful", "file reads avoided by the bloom filter")
    bytes_read: bool = _metric("bytes-read", "bytes read from the database")
    bytes_written: bool = _metric("bytes-written", "bytes written to the database")
    compaction_read_bytes: bool = _metric("compaction-read-bytes", "bytes that compactions read")
    compaction_write_bytes: bool = _metric("compaction-write-bytes", "bytes that compactions wrote")
    stall_micros: bool = _metric("stall-micros", "microseconds that writes were stalled")

    @property
    def metrics(self) -> list[str]:
        """The names of those that are switched on.

        Example:
            >>> RocksDBMetrics(block_cache_hit=True).metrics
            ['block-cache-hit']
        """
        keys = {each.name: each.metadata["key"] for each in fields(RocksDBMetrics)}
        return [key.removeprefix(_KEY) for name, key in keys.items() if getattr(self, name)]
