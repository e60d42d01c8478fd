"""What happened when, from the first start of the job to its end.

Example:
    >>> timeline = Timeline()
    >>> for at_s, records in ((0.0, 0), (1.0, 1_000), (2.0, 2_000)):
    ...     timeline.add(Sample(at_s, run=0, records=records, settled=0))
    >>> timeline.throughput(2)
    [1000.0, 1000.0]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Kill", "Sample", "Timeline"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The job at one moment; both counters begin at zero with each run."""

    at_s: float
    run: int
    records: int
    settled: int


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
        """When something was heard last."""
        return max((sample.at_s for sample in self.samples), default=0.0)

    def recovery_s(self, kill: Kill) -> float | None:
        """How long after a kill the next record was read; None if none was."""
        after = (sample.at_s for sample in self.samples if sample.at_s > kill.at_s and sample.records)
        moment = next(after, None)
        return None if moment is None else moment - kill.at_s

    def throughput(self, bins: int) -> list[float]:
        """Records read per second in each of so many equal parts of the time."""
        width = self.ended_s / bins
        read = [0.0] * bins
        for before, after in pairwise(self.samples):
            if width and before.run == after.run and after.at_s > before.at_s:
                per_second = (after.records - before.records) / (after.at_s - before.at_s)
                for index in range(int(before.at_s / width), min(int(after.at_s / width) + 1, bins)):
                    shared = min(after.at_s, (index + 1) * width) - max(before.at_s, index * width)
                    read[index] += per_second * max(shared, 0.0)
        return [records / width if width else 0.0 for records in read]
