"""Restart strategies, under PyFlink's names.

Example:
    >>> RestartStrategies.fixed_delay_restart(5, 2_000).get_description()
    'Restart with fixed delay (2000 ms). #5 restart attempts.'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """A restart strategy."""

    @abstractmethod
    def get_description(self) -> str:
        """The strategy as text."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The settings it stands for."""


@dataclass(frozen=True)
class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The first failure is final."""

    def get_description(self) -> str:
        """The strategy as text."""
        return "Restart deactivated."

    def settings(self) -> Mapping[str, Any]:
        """No strategy."""
        return {"restart-strategy.type": "none"}


@dataclass(frozen=True)
class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Whatever the settings from outside say."""

    def get_description(self) -> str:
        """The strategy as text."""
        return "Cluster level default restart strategy"

    def settings(self) -> Mapping[str, Any]:
        """None."""
        return {}


@dataclass(frozen=True)
class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
    """A number of restarts in the whole run, always the same time apart."""

    restart_attempts: int
    delay_between_attempts_interval: int | timedelta

    def get_restart_attempts(self) -> int:
        """How many restarts, whatever checkpoints there are in between."""
        return self.restart_attempts

    def get_delay_between_attempts_interval(self) -> timedelta:
        """The pause before each."""
        return timedelta(milliseconds=_ms(self.delay_between_attempts_interval))

    def get_description(self) -> str:
        """The strategy as text."""
        delay_ms = _ms(self.delay_between_attempts_interval)
        return f"Restart with fixed delay ({delay_ms} ms). #{self.restart_attempts} restart attempts."

    def settings(self) -> Mapping[str, Any]:
        """Attempts and delay."""
        return {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": self.restart_attempts,
            "restart-strategy.fixed-delay.delay": _ms(self.delay_between_attempts_interval),
        }


@dataclass(frozen=True)
class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Restarts, always the same time apart, until failures come too often."""

    max_failure_rate: int
    failure_interval: int | timedelta
    delay_between_attempts_interval: int | timedelta

    def get_max_failure_rate(self) -> int:
        """How many failures within the interval are answered with a restart."""
        return self.max_failure_rate

    def get_failure_interval(self) -> timedelta:
        """The time that failures are counted in."""
        return timedelta(milliseconds=_ms(self.failure_interval))

    def get_delay_between_attempts_interval(self) -> timedelta:
        """The pause before each restart."""
        return timedelta(milliseconds=_ms(self.delay_between_attempts_interval))

    def get_description(self) -> str:
        """The strategy as text."""
        return (
            f"Failure rate restart with maximum of {self.max_failure_rate} failures within interval "
            f"{_ms(self.failure_interval)} ms and fixed delay {_ms(self.delay_between_attempts_interval)} ms."
        )

    def settings(self) -> Mapping[str, Any]:
        """Rate, interval and delay."""
        return {
            "restart-strategy.type": "failure-rate",
            "restart-strategy.failure-rate.max-failures-per-interval": self.max_failure_rate,
            "restart-strategy.failure-rate.failure-rate-interval": _ms(self.failure_interval),
            "restart-strategy.failure-rate.delay": _ms(self.delay_between_attempts_interval),
        }


class RestartStrategies:
    """The strategies there are."""

    NoRestartStrategyConfiguration = NoRestartStrategyConfiguration
    FallbackRestartStrategyConfiguration = FallbackRestartStrategyConfiguration
    FixedDelayRestartStrategyConfiguration = FixedDelayRestartStrategyConfiguration
    FailureRateRestartStrategyConfiguration = FailureRateRestartStrategyConfiguration

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
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> RestartStrategyConfiguration:
        """So many restarts in the whole run, so many milliseconds apart."""
        return FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> RestartStrategyConfiguration:
        """Restarts until more than so many failures lie within the interval; times in milliseconds."""
        return FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)


def _ms(time: int | timedelta) -> int:
    return time // timedelta(milliseconds=1) if isinstance(time, timedelta) else time
