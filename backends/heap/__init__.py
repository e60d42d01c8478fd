"""State in memory, whole checkpoints in the metadata: for small state and tests."""

from __future__ import annotations

from tidegate.backends.heap.backend import HeapBackend as HeapBackend, HeapOptions as HeapOptions

__all__ = ["HeapBackend", "HeapOptions"]
