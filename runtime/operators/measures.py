"""What user functions measure, on its way from the workers to the result of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.runtime.accumulators import Accumulator, merged
from tidegate.runtime.metrics import Metric, Value
from tidegate.runtime.shipping import pack, unpack

__all__ = ["Measured", "Measures", "totals"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the functions of one worker have measured so far, as it travels."""

    metrics: Mapping[str, Value] = field(default_factory=dict)
    accumulators: bytes = b""


class Measures:
    """Accumulators and metrics of all functions of one worker."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        self._accumulators: list[tuple[str, Accumulator]] = []

    def add(self, name: str, accumulator: Accumulator) -> None:
        """Show an accumulator under a name."""
        self._accumulators.append((name, accumulator))

    def measured(self) -> Measured:
        """Where everything stands."""
        packed = pack("an accumulator", self._accumulators) if self._accumulators else b""
        return Measured({name: metric.value() for name, metric in self.metrics.items()}, packed)


def totals(parts: Sequence[Measured]) -> dict[str, Any]:
    """What the accumulators of all workers come to.

    Raises:
        ConfigError: two of one name are of different classes.
    """
    named = [each for part in parts if part.accumulators for each in unpack(part.accumulators)]
    return {name: total.get_local_value() for name, total in merged(named).items()}
