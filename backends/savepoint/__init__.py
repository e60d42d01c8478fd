"""Canonical savepoints: keyed state as Parquet files that any tool reads and any backend restores.

What reads and writes the files loads pyarrow, which takes longer than all of tidegate, when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.backends.savepoint.base import (
    CanonicalBase as CanonicalBase,
    file_of as file_of,
    is_canonical as is_canonical,
    regrouped as regrouped,
)
from tidegate.backends.savepoint.write import folder as folder, write_keyed as write_keyed

if TYPE_CHECKING:
    from tidegate.backends.savepoint._arrow import (
        items_table as items_table,
        key_groups_of as key_groups_of,
        read_items as read_items,
        read_table as read_table,
        write_items as write_items,
    )

__all__ = ["CanonicalBase", "file_of", "folder", "is_canonical", "regrouped", "write_keyed"]
__all__ += ["items_table", "key_groups_of", "read_items", "read_table", "write_items"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}._arrow"), name)
