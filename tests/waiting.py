"""How tests wait for what another thread or process does: by looking, and never for ever.

A wait without an end hides who failed: the whole run ends at somebody's limit, and not one test is named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from tidegate.clock import SYSTEM_CLOCK

__all__ = ["PATIENCE_S", "until"]

Found = TypeVar("Found")

PATIENCE_S: Final = 180.0
"""What a busy machine may take for anything; longer than anything takes, shorter than what a test may take."""

_PAUSE_S: Final = 0.01


def until(look: Callable[[], Found], seconds: float = PATIENCE_S) -> Found:
    """Look again and again until there is something; gives what was found.

    Raises:
        AssertionError: nothing came about in time; says what was there last.
    """
    pause, deadline = threading.Event(), SYSTEM_CLOCK.monotonic() + seconds
    while not (found := look()):
        assert SYSTEM_CLOCK.monotonic() < deadline, f"after {seconds:.0f} s there is still {found!r}"
        pause.wait(_PAUSE_S)
    return found
