"""Time domains of timers, under PyFlink's module name."""

from tidegate.runtime.stream.time_characteristic import TimeDomain as TimeDomain

__all__ = ["TimeDomain"]
