"""Options of restart strategies, under Flink's keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate.clock import chance
from tidegate.errors import ConfigError
from tidegate.options import option
from tidegate.runtime.schedule.restart import (
    DefaultDelay,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)

__all__ = ["RestartOptions"]


@dataclass(frozen=True)
class RestartOptions:
    """Which strategy a job has, and the numbers of each.

    Example:
        >>> RestartOptions(restart_strategy="failure-rate").strategy()
        FailureRate(most=1, interval_ms=60000, delay_ms=1000, _failures=deque([]))
    """

    restart_strategy: Literal[
        "default", "fixed-delay", "failure-rate", "exponential-delay", "none", "off", "disable"
    ] = option(
        "restart-strategy.type",
        "default",
        "fixed-delay, failure-rate, exponential-delay, or none; default: fixed-delay if one of its options is set, "
        "otherwise exponential-delay that a checkpoint resets; also named restart-strategy",
        old="restart-strategy",
    )
    restart_attempts: int | None = option(
        "restart-strategy.fixed-delay.attempts", None, "restarts in the whole run; default: 3", least=0
    )
    restart_delay_ms: int | None = option(
        "restart-strategy.fixed-delay.delay", None, "pause before a restart; default: 1 s", least=0
    )
    failure_rate: int = option(
        "restart-strategy.failure-rate.max-failures-per-interval",
        1,
        "restarts allowed within the interval; one more failure fails the job",
        least=0,
    )
    failure_interval_ms: int = option(
        "restart-strategy.failure-rate.failure-rate-interval",
        60_000,
        "interval in which failures are counted",
        least=0,
    )
    failure_delay_ms: int = option(
        "restart-strategy.failure-rate.delay", 1_000, "pause before a restart", least=0
    )
    backoff_first_ms: int = option(
        "restart-strategy.exponential-delay.initial-backoff", 1_000, "pause before the first restart", least=0
    )
    backoff_most_ms: int = option(
        "restart-strategy.exponential-delay.max-backoff",
        60_000,
        "the longest pause before a restart",
        least=0,
    )
    backoff_factor: float = option(
        "restart-strategy.exponential-delay.backoff-multiplier", 1.5, "factor between one pause and the next"
    )
    backoff_reset_ms: int = option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        3_600_000,
        "time without a failure after which the pause is reset to the initial one",
        least=0,
    )
    backoff_jitter: float = option(
        "restart-strategy.exponential-delay.jitter-factor", 0.1, "random share of a pause"
    )
    backoff_attempts: int | None = option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        None,
        "restarts until a failure is final, counted since the last reset; default: no limit",
        least=0,
    )

    @property
    def pauses_ms(self) -> int:
        """The pauses of all restarts that may follow one another."""
        match self._chosen:
            case "fixed-delay":
                return self._fixed.attempts * self._fixed.delay_ms
            case "failure-rate":
                return self.failure_rate * self.failure_delay_ms
            case "exponential-delay" | "default":
                return (self.backoff_attempts or 1) * self.backoff_most_ms
            case _:
                return 0

    def __post_init__(self) -> None:
        if self.backoff_factor < 1:
            raise ConfigError(
                "option 'restart-strategy.exponential-delay.backoff-multiplier' is out of range; "
                f"got {self.backoff_factor}; expected at least 1"
            )
        if not 0 <= self.backoff_jitter <= 1:
            raise ConfigError(
                "option 'restart-strategy.exponential-delay.jitter-factor' is out of range; "
                f"got {self.backoff_jitter}; expected 0 to 1"
            )

    def strategy(self) -> RestartStrategy:
        """A strategy that has seen no failure yet."""
        match self._chosen:
            case "fixed-delay":
                return self._fixed
            case "failure-rate":
                return FailureRate(self.failure_rate, self.failure_interval_ms, self.failure_delay_ms)
            case "exponential-delay" | "default" as chosen:
                kind = DefaultDelay if chosen == "default" else ExponentialDelay
                return kind(
                    self.backoff_first_ms,
                    self.backoff_most_ms,
                    self.backoff_factor,
                    self.backoff_reset_ms,
                    self.backoff_jitter,
                    self.backoff_attempts,
                    chance,
                )
            case _:
                return NoRestart()

    @property
    def _chosen(self) -> str:
        numbers = (self.restart_attempts, self.restart_delay_ms)
        fixed = self.restart_strategy == "default" and numbers != (None, None)
        return "fixed-delay" if fixed else self.restart_strategy

    @property
    def _fixed(self) -> FixedDelay:
        attempts, delay_ms = self.restart_attempts, self.restart_delay_ms
        return FixedDelay(3 if attempts is None else attempts, 1_000 if delay_ms is None else delay_ms)
