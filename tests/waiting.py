"""How tests wait for what another thread or process does: by looking, and never for ever.

A wait without an end hides who failed: the whole run ends at somebody's limit, and not one test is named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from tidegate.clock import SYSTEM_CLOCK
from tidegate.runtime.client import JobClient

__all__ = ["PATIENCE_S", "until"]

Found = TypeVar("Found")

PATIENCE_S: Final = 180.0
"""What a busy machine may take for anything; longer than anything takes, shorter than what a test may take."""

_PAUSE_S: Final = 0.01


def until(
    look: Callable[[], Found],
    seconds: float = PATIENCE_S,
    *,
    equals: object = None,
    job: JobClient | None = None,
) -> Found:
    """Look again and again until there is something; gives what was found.

    Args:
        look: What is looked at.
        seconds: How long at most.
        equals: What it must come to; by default, anything but what is empty or false.
        job: Whose doing it is: if it ends before, nothing comes of waiting on.

    Raises:
        AssertionError: nothing came about in time, or before the job ended; says what was there last.
        TidegateError: what the job failed with.
    """
    pause, deadline = threading.Event(), SYSTEM_CLOCK.monotonic() + seconds
    end = None if job is None else job.get_job_execution_result()
    while True:
        ended = end if end is not None and end.done() else None  # asked first: what it did last counts
        found = look()
        if found if equals is None else found == equals:
            return found
        if ended is not None:
            ended.result()
        assert ended is None, f"the job has ended, and there is still {found!r}"
        assert SYSTEM_CLOCK.monotonic() < deadline, f"after {seconds:.0f} s there is still {found!r}"
        pause.wait(_PAUSE_S)
