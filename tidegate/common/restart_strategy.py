"""Restart strategies, under PyFlink's module name."""

from tidegate.runtime.stream.restart_strategies import (
    RestartStrategies as RestartStrategies,
    RestartStrategyConfiguration as RestartStrategyConfiguration,
)

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]
