"""Durations, under PyFlink's names.

Example:
    >>> Duration.of_minutes(1) == Duration.of_seconds(60)
    True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError

__all__ = ["Duration", "Instant", "Time", "milliseconds"]


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time in milliseconds."""

    milliseconds: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Days of 24 hours."""
        return Duration(days * 86_400_000)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Hours."""
        return Duration(hours * 3_600_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Minutes."""
        return Duration(minutes * 60_000)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Seconds."""
        return Duration(seconds * 1_000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Milliseconds."""
        return Duration(millis)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Nanoseconds; they must be whole milliseconds.

        Raises:
            ConfigError: it is not a multiple of a million.
        """
        if nanos % 1_000_000:
            raise ConfigError(f"a duration of {nanos} ns is not supported; expected whole milliseconds")
        return Duration(nanos // 1_000_000)

    def to_milliseconds(self) -> int:
        """Its length."""
        return self.milliseconds


@dataclass(frozen=True, order=True)
class Instant:
    """A point in time: seconds since the epoch, and nanoseconds.

    Example:
        >>> Instant.of_epoch_milli(1_500).to_epoch_milli()
        1500
    """

    seconds: int
    nanos: int

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Milliseconds since the epoch."""
        seconds, rest = divmod(epoch_milli, 1_000)
        return Instant(seconds, rest * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Milliseconds since the epoch, without the rest."""
        return self.seconds * 1_000 + self.nanos // 1_000_000


class Time:
    """PyFlink's older name for lengths of time."""

    @staticmethod
    def days(days: int) -> Duration:
        """Days of 24 hours."""
        return Duration.of_days(days)

    @staticmethod
    def hours(hours: int) -> Duration:
        """Hours."""
        return Duration.of_hours(hours)

    @staticmethod
    def minutes(minutes: int) -> Duration:
        """Minutes."""
        return Duration.of_minutes(minutes)

    @staticmethod
    def seconds(seconds: int) -> Duration:
        """Seconds."""
        return Duration.of_seconds(seconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> Duration:
        """Milliseconds."""
        return Duration.of_millis(milliseconds)


def milliseconds(what: str, given: Any, *, least: int | None = None) -> int:
    """A length of time that a program gave, in milliseconds.

    Raises:
        ConfigError: it is no `Duration`, or shorter than `least`.
    """
    if not isinstance(given, Duration):
        raise ConfigError(f"{what} is {given!r}; expected a Duration such as Duration.of_seconds(5)")
    if least is not None and given.milliseconds < least:
        raise ConfigError(f"{what} is {given.milliseconds} ms; expected at least {least}")
    return given.milliseconds
