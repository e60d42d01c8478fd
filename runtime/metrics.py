"""Metrics of user functions, under PyFlink's names.

Values are collected several times a second and are part of the run snapshot as
`<operator uid>.<subtask>.<groups>.<name>`. An update is plain arithmetic on attributes, without a lock.

Example:
    >>> root = MetricGroup("parse.0", {}, lambda: 0.0)
    >>> errors = root.add_group("errors").counter("malformed")
    >>> errors.inc(3)
    >>> root.values()
    {'parse.0.errors.malformed': 3}
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from tidegate.errors import ConfigError

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup", "Value"]

Value = int | float | str | dict[str, int | float]


class Metric(Protocol):
    """A metric: anything with a current value."""

    def value(self) -> Value:
        """The current value."""
        ...


M = TypeVar("M", bound="Metric")


class Counter:
    """A counter; it can also be decremented."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Increment."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Decrement."""
        self._count -= n

    def get_count(self) -> int:
        """The current value."""
        return self._count

    def value(self) -> Value:
        """The current value."""
        return self._count


class Gauge:
    """A function that is called each time the metric is read."""

    def __init__(self, ask: Callable[[], int | float]) -> None:
        self._ask = ask

    def value(self) -> Value:
        """The result of the function; if it raises, the error as text, because reading a metric must not fail a job."""
        try:
            return self._ask()
        except Exception as error:
            return f"{type(error).__name__}: {error}"


class Meter:
    """Events per second over the last `span_s` seconds."""

    def __init__(self, span_s: int, monotonic: Callable[[], float]) -> None:
        self._span_s = span_s
        self._monotonic = monotonic
        self._count = 0
        self._seen: deque[tuple[float, int]] = deque([(monotonic(), 0)])

    def mark_event(self, value: int = 1) -> None:
        """Count an event, or several."""
        self._count += value

    def get_count(self) -> int:
        """The number of events so far."""
        return self._count

    def value(self) -> Value:
        """The rate."""
        now = self._monotonic()
        self._seen.append((now, self._count))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._span_s:
            self._seen.popleft()
        then, before = self._seen[0]
        return (self._count - before) / (now - then) if now > then else 0.0


class Distribution:
    """Minimum, maximum, sum and count of values."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: int | float = 0
        self._min: int | float | None = None
        self._max: int | float | None = None

    def update(self, value: int | float) -> None:
        """Add a value."""
        self._count += 1
        self._sum += value
        self._min = value if self._min is None or value < self._min else self._min
        self._max = value if self._max is None or value > self._max else self._max

    def value(self) -> Value:
        """All four; no minimum and maximum before the first value."""
        extremes = {} if self._min is None or self._max is None else {"min": self._min, "max": self._max}
        return {"count": self._count, "sum": self._sum, **extremes}


class MetricGroup:
    """Metrics under a common prefix."""

    def __init__(self, prefix: str, registered: dict[str, Metric], monotonic: Callable[[], float]) -> None:
        self._prefix = prefix
        self._registered = registered
        self._monotonic = monotonic

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A subgroup."""
        labels = ".".join(part for part in (self._prefix, name, extra) if part)
        return MetricGroup(labels, self._registered, self._monotonic)

    def counter(self, name: str) -> Counter:
        """The counter with this name; created if it does not exist."""
        return self._register(name, Counter())

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """Register a function whose result is the value."""
        self._register(name, Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """The meter with this name; created if it does not exist."""
        return self._register(name, Meter(time_span_in_seconds, self._monotonic))

    def distribution(self, name: str) -> Distribution:
        """The distribution with this name; created if it does not exist."""
        return self._register(name, Distribution())

    def values(self) -> dict[str, Value]:
        """The values of all metrics, including those of other groups."""
        return {name: metric.value() for name, metric in self._registered.items()}

    def _register(self, name: str, metric: M) -> M:
        known = self._registered.setdefault(f"{self._prefix}.{name}", metric)
        if type(known) is not type(metric):
            raise ConfigError(
                f"metric {name!r} of {self._prefix} is a {type(known).__name__}; got {type(metric).__name__}; "
                "use another name"
            )
        return known
