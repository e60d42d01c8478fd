"""Canonical savepoints: keyed state as Parquet files that any tool reads and any backend restores."""

from __future__ import annotations

from tidegate.backends.savepoint._arrow import (
    items_table as items_table,
    key_groups_of as key_groups_of,
    read_items as read_items,
    read_table as read_table,
    write_items as write_items,
)
from tidegate.backends.savepoint.base import (
    CanonicalBase as CanonicalBase,
    file_of as file_of,
    is_canonical as is_canonical,
    regrouped as regrouped,
)
from tidegate.backends.savepoint.write import folder as folder, write_keyed as write_keyed

__all__ = [
    "CanonicalBase",
    "file_of",
    "folder",
    "is_canonical",
    "items_table",
    "key_groups_of",
    "read_items",
    "read_table",
    "regrouped",
    "write_items",
    "write_keyed",
]
