"""RocksDB state backend: state on the local disk, larger than memory; only new files of a base are uploaded."""

from __future__ import annotations

from tidegate.backends.rocksdb.backend import RocksDBBackend as RocksDBBackend
from tidegate.backends.rocksdb.options import RocksDBOptions as RocksDBOptions

__all__ = ["RocksDBBackend", "RocksDBOptions"]
