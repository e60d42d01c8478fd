"""The canonical form of keyed state: Parquet files that any tool reads and any backend restores."""

from __future__ import annotations

from tidegate.backends.savepoint.base import CanonicalBase as CanonicalBase
from tidegate.backends.savepoint.write import write_keyed as write_keyed

__all__ = ["CanonicalBase", "write_keyed"]
