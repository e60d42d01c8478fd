"""Time limit of a task: interrupts a hanging function, so that the error names the record.

Code that ignores the interrupt is interrupted again each second.

Example:
    >>> with time_limit(10):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    ...
    tidegate.runtime.operators.failure.OverdueError: the epoch did not end within 10 ms
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

from tidegate.runtime.operators.failure import OverdueError

__all__ = ["time_limit"]

_AGAIN_S: Final = 1.0


@contextlib.contextmanager
def time_limit(milliseconds: int | None) -> Iterator[None]:
    """Interrupt the block after this time; without a limit do nothing. Only in the main thread of a process.

    Raises:
        OverdueError: it took longer.
    """

    if milliseconds is None:
        yield
        return

    def over(number: int, frame: FrameType | None) -> NoReturn:
        raise OverdueError(f"the epoch did not end within {milliseconds} ms")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
