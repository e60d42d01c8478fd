"""What user functions measure, on its way from the workers to the result of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import ConfigError
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
        self._packed = b""

    def add(self, name: str, accumulator: Accumulator) -> None:
        """Show an accumulator under a name."""
        self._accumulators.append((name, accumulator))

    def measured(self) -> Measured:
        """Where everything stands; accumulators that another thread adds to at this moment, where they stood before."""
        if self._accumulators:
            try:
                self._packed = pack("an accumulator", list(self._accumulators))
            except ConfigError as error:
                if not _changed_meanwhile(error.__cause__):
                    raise
        metrics = {name: metric.value() for name, metric in list(self.metrics.items())}
        return Measured(metrics, self._packed)


def totals(parts: Sequence[Measured]) -> dict[str, Any]:
    """What the accumulators of all workers come to.

    Raises:
        ConfigError: two of one name are of different classes.
    """
    named = [each for part in parts if part.accumulators for each in unpack(part.accumulators)]
    return {name: total.get_local_value() for name, total in merged(named).items()}


def _changed_meanwhile(error: BaseException | None) -> bool:
    # Nobody takes a lock to add, so nobody pays for one. Containers say in these words that they were changed while
    # they were packed.
    return isinstance(error, RuntimeError) and "during iteration" in str(error)
