"""State backends, under PyFlink's module name."""

from tidegate.runtime.stream.state_backends import (
    EmbeddedRocksDBStateBackend as EmbeddedRocksDBStateBackend,
    HashMapStateBackend as HashMapStateBackend,
    StateBackend as StateBackend,
)

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "StateBackend"]
