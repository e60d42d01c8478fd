"""Durations, under PyFlink's module name."""

from tidegate.runtime.stream.time import Duration as Duration, Instant as Instant, Time as Time

__all__ = ["Duration", "Instant", "Time"]
