"""Collection source and sink: records from and to a program's memory, for tests, notebooks and first steps."""

from __future__ import annotations

from tidegate.connectors.collection.sink import CollectSink as CollectSink, read_collected as read_collected
from tidegate.connectors.collection.source import CollectionSource as CollectionSource

__all__ = ["CollectSink", "CollectionSource", "read_collected"]
