"""Restart strategies: whether and when a failed job restarts. Pure.

A strategy is told of failures and of progress, with the time, and answers how long to wait.

Example:
    >>> strategy = FixedDelay(attempts=2, delay_ms=500)
    >>> strategy.failed(0), strategy.failed(10), strategy.failed(20)
    (500, 500, None)
    >>> rate = FailureRate(most=1, interval_ms=60_000, delay_ms=500)
    >>> rate.failed(0), rate.failed(60_000), rate.failed(90_000)
    (500, 500, None)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tidegate.errors import (
    CommitFailedError,
    CommitUnknownError,
    ConfigError,
    FencedError,
    JobCancelledError,
    JobFailedError,
    MissingExtraError,
    StateCorruptError,
    StateFormatError,
    TidegateError,
    UserCodeError,
)

__all__ = [
    "DefaultDelay",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "NoRestart",
    "RestartStrategy",
    "repeats",
    "worth_restarting",
]

_FINAL = (
    CommitFailedError,
    CommitUnknownError,
    ConfigError,
    FencedError,
    JobCancelledError,
    JobFailedError,
    MissingExtraError,
    StateCorruptError,
    StateFormatError,
)


class RestartStrategy(Protocol):
    """Answers failures; one for each run."""

    def failed(self, now_ms: int) -> int | None:
        """The job, or a part of it, failed: milliseconds until its restart, or None if there is none."""
        ...

    def progressed(self) -> None:
        """A checkpoint was decided."""
        ...


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure is final."""

    def failed(self, now_ms: int) -> int | None:
        """None, whenever it is."""
        return None

    def progressed(self) -> None:
        """Nothing to remember."""


@dataclass(slots=True)
class FixedDelay:
    """Up to `attempts` restarts in the whole run, each after `delay_ms`; checkpoints change nothing about it."""

    attempts: int
    delay_ms: int
    _failures: int = 0

    def failed(self, now_ms: int) -> int | None:
        """The delay, as long as attempts are left."""
        self._failures += 1
        return self.delay_ms if self._failures <= self.attempts else None

    def progressed(self) -> None:
        """The number is that of the whole run."""


@dataclass(slots=True)
class FailureRate:
    """Restarts unless more than `most` failures lie within `interval_ms`; checkpoints change nothing about it."""

    most: int
    interval_ms: int
    delay_ms: int
    _failures: deque[int] = field(default_factory=deque)

    def failed(self, now_ms: int) -> int | None:
        """The delay, unless this failure exceeds the rate."""
        self._failures.append(now_ms)
        while self._failures[0] <= now_ms - self.interval_ms:
            self._failures.popleft()
        return self.delay_ms if len(self._failures) <= self.most else None

    def progressed(self) -> None:
        """Only time counts."""


@dataclass(slots=True)
class ExponentialDelay:
    """Waits longer after each failure, until none has come for `reset_ms`; checkpoints change nothing about it.

    The delay is spread by the share `jitter` in both directions, so that jobs that failed together do not come back
    together; `chance` returns random numbers from 0 to 1.
    """

    first_ms: int
    most_ms: int
    factor: float
    reset_ms: int
    jitter: float
    attempts: int | None
    chance: Callable[[], float]
    _failures: int = 0
    _quiet_at_ms: int = 0

    def failed(self, now_ms: int) -> int | None:
        """The next delay; None if there were as many failures as attempts since it was last at its beginning."""
        if now_ms >= self._quiet_at_ms:
            self._failures = 0
        if self._failures == self.attempts:
            return None
        # A power that overflows a float is far beyond every limit.
        delay = float(self.most_ms)
        if self._failures < 1_000:
            delay = min(delay, self.first_ms * self.factor**self._failures)
        self._failures += 1
        spread = round(delay * (1 + self.jitter * (2 * self.chance() - 1)))
        self._quiet_at_ms = now_ms + spread + self.reset_ms
        return min(spread, self.most_ms)

    def progressed(self) -> None:
        """Only time counts."""


@dataclass(slots=True)
class DefaultDelay(ExponentialDelay):
    """The exponential delay of a program that chose no strategy: a decided checkpoint brings back the first delay, and
    a user function that fails on the same record in the same way again is not tried a third time.
    """

    _seen: deque[str] = field(default_factory=partial(deque, maxlen=16))
    """More than one, because several subtasks may each fail on a different record."""

    def progressed(self) -> None:
        """Delays begin again."""
        self._failures = 0

    def repeats(self, error: TidegateError) -> bool:
        """Whether this failure came before; remembers it."""
        if not isinstance(error, UserCodeError) or error.record is None:
            return False
        seen = str(error) in self._seen
        self._seen.append(str(error))
        return seen


def repeats(strategy: RestartStrategy, error: TidegateError) -> bool:
    """Whether a restart would only bring the same failure again, and the strategy looks at that."""
    return isinstance(strategy, DefaultDelay) and strategy.repeats(error)


def worth_restarting(error: TidegateError) -> bool:
    """Whether a restart may help after this failure."""
    return not isinstance(error, _FINAL)
