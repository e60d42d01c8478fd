"""Warns at the end of a process about programs that were never executed."""

from __future__ import annotations

import atexit
import sys
from typing import Any

__all__ = ["note_executed", "note_step"]

_written: dict[int, Any] = {}
"""Environments with steps that have not been executed yet."""


def note_step(env: Any) -> None:
    """A step was added to the program of an environment."""
    _written[id(env)] = env


def note_executed(env: Any) -> None:
    """The program was run or shown."""
    _written.pop(id(env), None)


@atexit.register
def _tell() -> None:
    # Who sees why the program ended before it came to execute() needs no more.
    if _written and not hasattr(sys, "last_value"):
        print(
            "tidegate: no job was executed: the program added steps and ended without env.execute(); add it at the end",
            file=sys.stderr,
        )
