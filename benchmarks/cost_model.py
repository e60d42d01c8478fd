"""A model of what an epoch on Spark takes, fitted to epochs that were measured, and what it says of wider programs.

On slots that work one task after the other an epoch takes a fixed time, some for each partition, and some for each record
and each key whose state changes. Behind the exchange every source task has a parcel for every keyed task, and the driver
has work for each partition: neither shows at eight of them, so both are measured apart.

Example:
    >>> points = [Point(p, r, d, 0.1 + 0.02 * p + 1e-6 * r + 2e-6 * d) for p in (1, 2, 8) for r, d in ((8, 8), (90, 20), (50, 50))]
    >>> model = fit(points)
    >>> round(model.fixed_s, 3), round(model.partition_s, 3)
    (0.1, 0.02)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Model", "Point", "fit"]

SLOTS = 2
"""Of the machine on which it was measured."""


@dataclass(frozen=True)
class Point:
    """An epoch that was measured: `dirty` are the keys whose state it changed."""

    partitions: int
    records: int
    dirty: int
    seconds: float


@dataclass(frozen=True)
class Model:
    """Seconds: of each epoch, and for each partition, record and changed key on two slots."""

    fixed_s: float
    partition_s: float
    record_s: float
    dirty_s: float

    def seconds(self, partitions: int, records: int, dirty: int, slots: int = SLOTS) -> float:
        """An epoch on so many slots, without what the driver does for each partition."""
        tasks = self.partition_s * partitions + self.record_s * records + self.dirty_s * dirty
        return self.fixed_s + tasks * SLOTS / max(SLOTS, min(slots, partitions))


def fit(points: Sequence[Point]) -> Model:
    """The model with the least squares of relative errors, so that long epochs do not decide alone."""
    weights = np.array([1 / point.seconds for point in points])
    rows = np.array([[1, point.partitions, point.records, point.dirty] for point in points], dtype=float)
    # In like sizes, since numbers of records are thousands of times those of partitions.
    scale = rows.max(axis=0)
    found, *_ = np.linalg.lstsq(rows / scale * weights[:, None], np.ones(len(points)), rcond=None)
    return Model(*(float(value) for value in found / scale))
