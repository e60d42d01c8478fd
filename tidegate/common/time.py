"""Lengths of time, under PyFlink's module name."""

from tidegate.runtime.stream.time import Duration as Duration, Time as Time

__all__ = ["Duration", "Time"]
