"""Who takes too long is interrupted where it is, and nobody else is."""

from __future__ import annotations

import signal

import pytest

from tidegate.runtime.operators.failure import OverdueError
from tidegate.runtime.spark.limit import time_limit


def test_what_takes_too_long_is_interrupted() -> None:
    with pytest.raises(OverdueError, match="the epoch did not end within 20 ms"), time_limit(20):
        signal.pause()  # a handler runs, which raises


def test_nothing_is_left_of_the_limit_behind_its_block() -> None:
    before = signal.getsignal(signal.SIGALRM)

    with time_limit(60_000):
        pass

    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
