"""Keeps the garbage collector from what is loaded once: PySpark has it look at everything after each task, 20 ms long.

Only in processes that are forked from our own daemon, which `begin` is called in. What others run their tasks in too is
not ours to change.
"""

from __future__ import annotations

import gc
import sys

__all__ = ["again", "begin"]

_loaded: int | None = None
"""How many modules were loaded when it was done last; None where it is not done."""


def begin() -> None:
    """Leave out what there is, from now on and in the processes that are forked from this one."""
    global _loaded
    gc.collect()
    gc.freeze()
    _loaded = len(sys.modules)


def again() -> None:
    """Leave out what has been loaded since, if anything was; called before a task, when what the last one made is gone."""
    if _loaded is not None and len(sys.modules) != _loaded:
        begin()
