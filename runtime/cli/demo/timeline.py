"""Timeline of a demo run, from the first start of the job to its end.

Example:
    >>> timeline = Timeline()
    >>> for at_s, records in ((0.0, 0), (1.0, 1_000), (2.0, 2_000)):
    ...     timeline.add(Sample(at_s, run=0, records=records, settled=0))
    >>> timeline.throughput(2)
    [1000.0, 1000.0]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

__all__ = ["Kill", "Sample", "Stretch", "Timeline"]

_LEAST_S: Final = 0.7


@dataclass(frozen=True, slots=True)
class Sample:
    """The job at one moment; both counters begin at zero with each run."""

    at_s: float
    run: int
    records: int
    settled: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run with its mean throughput."""

    from_s: float
    to_s: float
    per_second: float


@dataclass(frozen=True, slots=True)
class Kill:
    """A `kill -9` of the whole process group."""

    at_s: float
    pid: int
    code: int


@dataclass(slots=True)
class Timeline:
    """Samples in order of time, kills, and the moments at which checkpoints settled."""

    samples: list[Sample] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    checkpoints: list[float] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """The job said something."""
        last = self.samples[-1] if self.samples else None
        before = last.settled if last is not None and last.run == sample.run else 0
        self.checkpoints += [sample.at_s] * (sample.settled - before)
        self.samples.append(sample)

    @property
    def ended_s(self) -> float:
        """The time of the last sample."""
        return max((sample.at_s for sample in self.samples), default=0.0)

    def recovery_s(self, kill: Kill) -> float | None:
        """How long after a kill the next record was read; None if none was."""
        after = (sample.at_s for sample in self.samples if sample.at_s > kill.at_s and sample.records)
        moment = next(after, None)
        return None if moment is None else moment - kill.at_s

    def stretches(self, run: int) -> list[Stretch]:
        """A run cut into parts of at least so long that the rhythm of its reports does not show."""
        own = [sample for sample in self.samples if sample.run == run]
        idle = sum(not sample.records for sample in own)
        working = own[max(idle - 1, 0) :]
        moved = [after for before, after in pairwise(working) if after.records > before.records]
        found: list[Stretch] = []
        begin = working[0] if working else None
        for sample in moved:
            if begin is not None and (
                sample.at_s - begin.at_s >= _LEAST_S or (sample is moved[-1] and not found)
            ):
                per_second = (sample.records - begin.records) / (sample.at_s - begin.at_s)
                found.append(Stretch(begin.at_s, sample.at_s, per_second))
                begin = sample
        if found:
            found[-1] = replace(found[-1], to_s=own[-1].at_s)
        return found

    def throughput(self, bins: int) -> list[float]:
        """Records read per second in each of so many equal parts of the time."""
        width = self.ended_s / bins
        rates = [0.0] * bins
        for run in range(len(self.kills) + 1):
            for stretch in self.stretches(run):
                for index in range(int(stretch.from_s / width), min(int(stretch.to_s / width) + 1, bins)):
                    shared = min(stretch.to_s, (index + 1) * width) - max(stretch.from_s, index * width)
                    rates[index] += stretch.per_second * max(shared, 0.0) / width
        return rates
