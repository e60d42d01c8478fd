"""Time characteristics, under PyFlink's module name."""

from tidegate.runtime.stream.time_characteristic import TimeCharacteristic as TimeCharacteristic

__all__ = ["TimeCharacteristic"]
