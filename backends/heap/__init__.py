"""Heap state backend: state in memory, complete checkpoints in the metadata; for small state and tests."""

from __future__ import annotations

from tidegate.backends.heap.backend import HeapBackend as HeapBackend
from tidegate.backends.heap.options import HeapOptions as HeapOptions

__all__ = ["HeapBackend", "HeapOptions"]
