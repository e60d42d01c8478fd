"""State on the local disk in RocksDB, larger than memory; bases are its files, only new ones are uploaded."""

from __future__ import annotations

from tidegate.backends.rocksdb.backend import RocksDBBackend as RocksDBBackend
from tidegate.backends.rocksdb.options import RocksDBOptions as RocksDBOptions

__all__ = ["RocksDBBackend", "RocksDBOptions"]
