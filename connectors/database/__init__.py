"""Tables of relational databases: Postgres and SQLite."""

from __future__ import annotations

from tidegate.connectors.database.database import Database as Database
from tidegate.connectors.database.options import DatabaseSinkOptions as DatabaseSinkOptions
from tidegate.connectors.database.sink import DatabaseSink as DatabaseSink
from tidegate.connectors.database.source import DatabaseSource as DatabaseSource

__all__ = ["Database", "DatabaseSink", "DatabaseSinkOptions", "DatabaseSource"]
