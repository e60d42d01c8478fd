"""Timestamps and watermarks, under PyFlink's module name."""

from tidegate.runtime.stream.watermarks import (
    TimestampAssigner as TimestampAssigner,
    WatermarkGenerator as WatermarkGenerator,
    WatermarkStrategy as WatermarkStrategy,
)

__all__ = ["TimestampAssigner", "WatermarkGenerator", "WatermarkStrategy"]
