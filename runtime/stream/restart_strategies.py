"""Whether and when a failed job starts again, under PyFlink's names.

Example:
    >>> RestartStrategies.fixed_delay_restart(5, 2_000).get_description()
    'Restart with fixed delay (2000 ms). #5 restart attempts.'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from tidegate.errors import ConfigError

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """One way to go on after a failure."""

    @abstractmethod
    def get_description(self) -> str:
        """The strategy in words."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The settings it stands for."""


@dataclass(frozen=True)
class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The first failure is final."""

    def get_description(self) -> str:
        """The strategy in words."""
        return "Restart deactivated."

    def settings(self) -> Mapping[str, Any]:
        """No attempts."""
        return {"restart-strategy.fixed-delay.attempts": 0}


@dataclass(frozen=True)
class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Whatever the settings from outside say."""

    def get_description(self) -> str:
        """The strategy in words."""
        return "Cluster level default restart strategy"

    def settings(self) -> Mapping[str, Any]:
        """None."""
        return {}


@dataclass(frozen=True)
class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
    """A number of restarts in a row, always the same time apart."""

    restart_attempts: int
    delay_ms: int

    def get_restart_attempts(self) -> int:
        """How many restarts without a checkpoint in between."""
        return self.restart_attempts

    def get_delay_between_attempts_interval(self) -> timedelta:
        """The pause before each."""
        return timedelta(milliseconds=self.delay_ms)

    def get_description(self) -> str:
        """The strategy in words."""
        return f"Restart with fixed delay ({self.delay_ms} ms). #{self.restart_attempts} restart attempts."

    def settings(self) -> Mapping[str, Any]:
        """Attempts and delay."""
        return {
            "restart-strategy.fixed-delay.attempts": self.restart_attempts,
            "restart-strategy.fixed-delay.delay": self.delay_ms,
        }


class RestartStrategies:
    """The strategies there are."""

    NoRestartStrategyConfiguration = NoRestartStrategyConfiguration
    FallbackRestartStrategyConfiguration = FallbackRestartStrategyConfiguration
    FixedDelayRestartStrategyConfiguration = FixedDelayRestartStrategyConfiguration

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """The first failure is final."""
        return NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Whatever the settings from outside say."""
        return FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int
    ) -> RestartStrategyConfiguration:
        """So many restarts in a row, so many milliseconds apart."""
        return FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(failure_rate: int, failure_interval: int, delay_interval: int) -> NoReturn:
        """Refused.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "failure_rate_restart is not available yet; use fixed_delay_restart(attempts, delay), which counts "
            "failures without a checkpoint in between"
        )
