"""Excludes loaded modules from garbage collection: PySpark runs a full collection after each task, which takes 20 ms.

Only in processes forked from our own daemon, which calls `begin`. Processes that also run other programs' tasks are
not changed.
"""

from __future__ import annotations

import gc
import sys

__all__ = ["again", "begin"]

_loaded: int | None = None
"""The number of modules loaded at the last freeze; None if freezing is off."""


def begin() -> None:
    """Exclude all current objects, in this process and in processes forked from it."""
    global _loaded
    gc.collect()
    gc.freeze()
    _loaded = len(sys.modules)


def again() -> None:
    """Exclude modules loaded since, if any; called before a task, when objects of the last task are gone."""
    if _loaded is not None and len(sys.modules) != _loaded:
        begin()
