"""Time characteristic: the default notion of time of a program."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeCharacteristic", "TimeDomain"]


class TimeCharacteristic(Enum):
    """Event time needs no switch; this decides what shortcuts such as `time_window` mean, and what sources stamp.

    Example:
        >>> TimeCharacteristic.EventTime.name
        'EventTime'
    """

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2


class TimeDomain(Enum):
    """Which time a timer follows."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
