"""Accumulators and metrics of user functions, sent from workers and merged into the result of the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any

from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.accumulators import Accumulator, merged
from tidegate.runtime.metrics import Counter, Distribution, Metric, Value
from tidegate.runtime.shipping import pack, unpack

__all__ = ["Measured", "Measures", "followed", "totals"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Accumulators and metrics of one worker, in the form that is sent."""

    metrics: Mapping[str, Value] = field(default_factory=dict)
    accumulators: bytes = b""
    sums: frozenset[str] = frozenset()
    """The names of counters and distributions, which add up over time; other metrics are current values."""


class Measures:
    """Accumulators and metrics of all functions of one worker."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        self.adding: set[Subtask] = set()
        """The subtasks that have accumulators."""
        self._accumulators: list[tuple[str, Accumulator]] = []
        self._packed = b""

    def add(self, subtask: Subtask, name: str, accumulator: Accumulator) -> None:
        """Register an accumulator of a subtask under a name."""
        self.adding.add(subtask)
        self._accumulators.append((name, accumulator))

    def measured(self) -> Measured:
        """Current values; the previous value of an accumulator that another thread is changing."""
        if self._accumulators:
            try:
                self._packed = pack("an accumulator", list(self._accumulators))
            except ConfigError as error:
                if not _changed_meanwhile(error.__cause__):
                    raise
        registered = list(self.metrics.items())
        metrics = {name: metric.value() for name, metric in registered}
        sums = frozenset(name for name, metric in registered if isinstance(metric, (Counter, Distribution)))
        return Measured(metrics, self._packed, sums)


def followed(before: Measured, after: Measured) -> Measured:
    """The total of two periods, between which functions were opened again, as for each epoch on Spark.

    Example:
        >>> followed(Measured({"seen": 2}), Measured({"seen": 3}, sums=frozenset({"seen"}))).metrics
        {'seen': 5}

    Raises:
        ConfigError: two accumulators of one name are of different classes.
    """
    summed = {
        name: _sum(before.metrics[name], value)
        for name, value in after.metrics.items()
        if name in after.sums and name in before.metrics
    }
    metrics = {**before.metrics, **after.metrics, **summed}
    return Measured(metrics, _merged(before.accumulators, after.accumulators), before.sums | after.sums)


def totals(parts: Sequence[Measured]) -> dict[str, Any]:
    """The accumulators of all workers, merged.

    Raises:
        ConfigError: two of one name are of different classes.
    """
    named = [each for part in parts if part.accumulators for each in unpack(part.accumulators)]
    return {name: total.get_local_value() for name, total in merged(named).items()}


def _sum(before: Any, after: Any) -> Value:
    """The total of two counts, or of two distributions by part; a missing minimum or maximum is ignored."""
    if not isinstance(before, dict):
        return int(before + after)
    folds: dict[str, Callable[[Any, Any], Any]] = {"min": min, "max": max}
    both = before.keys() & after.keys()
    summed: Value = before | after | {name: folds.get(name, add)(before[name], after[name]) for name in both}
    return summed


def _merged(before: bytes, after: bytes) -> bytes:
    if not (before and after):
        return before or after
    return pack("an accumulator", list(merged([*unpack(before), *unpack(after)]).items()))


def _changed_meanwhile(error: BaseException | None) -> bool:
    # Adding takes no lock, because that would cost time for each record. With this text containers report that they were
    # changed while they were packed.
    return isinstance(error, RuntimeError) and "during iteration" in str(error)
