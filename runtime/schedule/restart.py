"""Whether a failed job is started again: pure.

Example:
    >>> strategy = FixedDelay(attempts=2, delay_ms=500)
    >>> strategy.failed(), strategy.failed(), strategy.failed()
    (500, 500, None)
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import (
    CommitFailedError,
    CommitUnknownError,
    ConfigError,
    FencedError,
    JobCancelledError,
    MissingExtraError,
    StateCorruptError,
    StateFormatError,
    TidegateError,
)

__all__ = ["FixedDelay", "worth_restarting"]

_FINAL = (
    CommitFailedError,
    CommitUnknownError,
    ConfigError,
    FencedError,
    JobCancelledError,
    MissingExtraError,
    StateCorruptError,
    StateFormatError,
)


@dataclass(slots=True)
class FixedDelay:
    """Up to `attempts` restarts in a row, each after `delay_ms`; a decided checkpoint starts the count anew."""

    attempts: int
    delay_ms: int
    _failures: int = 0

    def failed(self) -> int | None:
        """The job failed: milliseconds until the restart, or None if there is none."""
        self._failures += 1
        return self.delay_ms if self._failures <= self.attempts else None

    def progressed(self) -> None:
        """A checkpoint was decided."""
        self._failures = 0


def worth_restarting(error: TidegateError) -> bool:
    """Whether a failure may be gone after a restart."""
    return not isinstance(error, _FINAL)
