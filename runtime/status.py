"""Run status: collects events and counters of a run and publishes them as immutable snapshots."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from tidegate.clock import Clock
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.observe.checkpoints import CheckpointHistory
from tidegate.runtime.observe.discovery import DiscoveryHealth
from tidegate.runtime.observe.events import EventFile, EventLog, EventType, JobEvent
from tidegate.runtime.observe.operators import operators_of, slowest
from tidegate.runtime.observe.run_snapshot import RunSnapshot, State
from tidegate.runtime.operators.measures import Measured, totals
from tidegate.runtime.schedule.states import JobLife
from tidegate.runtime.task.flow import Flow
from tidegate.twophase.ledger import Answered
from tidegate.twophase.spi import Retry

__all__ = ["JobEvent", "RunSnapshot", "RunStatus", "State", "log_commit_answers"]

NOTHING_MEASURED: Final = Measured()
NOTHING_FLOWS: Final[Mapping[Subtask, Flow]] = MappingProxyType({})

_FOLDED_S: Final = 0.2
_SAMPLED_S: Final = 0.5
_RATE_S: Final = 10.0


@dataclass(slots=True)
class _Rate:
    """The rate of a counter over the last seconds, which is longer than the period of batches and checkpoints."""

    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def at(self, now: float, count: int) -> float:
        # A counter that was reset, or has not moved yet because no worker runs, is measured from now on.
        if self.samples and (count < self.samples[-1][1] or count == self.samples[0][1]):
            self.samples.clear()
        if not self.samples or now - self.samples[-1][0] >= _SAMPLED_S:
            self.samples.append((now, count))
        while len(self.samples) > 2 and now - self.samples[1][0] >= _RATE_S:
            self.samples.popleft()
        (then, before), (newest, last) = self.samples[0], self.samples[-1]
        return (last - before) / (newest - then) if newest > then else 0.0


@dataclass(slots=True)
class RunStatus:
    """Events and counters of one run; written by the coordinator thread only.

    Other threads read `latest`, which is replaced atomically.
    """

    clock: Clock
    file: EventFile | None = None
    life: JobLife = field(default_factory=JobLife)
    events: EventLog = field(init=False)
    discovery: DiscoveryHealth = field(init=False)
    latest: RunSnapshot = field(init=False)
    _counts: Counter[str] = field(default_factory=Counter)
    commits_retried: Counter[str] = field(default_factory=Counter)
    """Number of refused commits, by sink."""
    _checkpoints: CheckpointHistory = field(default_factory=CheckpointHistory)
    _failure: str | None = None
    _started: float = 0.0
    _earlier: int = 0
    _records: dict[int, int] = field(default_factory=dict)
    _measured: dict[int, Measured] = field(default_factory=dict)
    _flow: dict[Subtask, Flow] = field(default_factory=dict)
    _rate: _Rate = field(default_factory=_Rate)
    _rates: dict[str, _Rate] = field(default_factory=dict)
    _folded: float = 0.0

    def __post_init__(self) -> None:
        self._started = self._folded = self.clock.monotonic()
        self.events = EventLog(self.clock, self.file)
        self.discovery = DiscoveryHealth(self.clock, self.note)
        self.latest = self.snapshot()

    def note(
        self,
        what: EventType,
        text: str,
        *,
        checkpoint: CheckpointId | None = None,
        subtask: Subtask | None = None,
        size: int | None = None,
        sinks: dict[str, int] | None = None,
    ) -> None:
        """Add an event."""
        event = self.events.append(what, text, checkpoint=checkpoint, subtask=subtask, size=size, sinks=sinks)
        self._counts[what] += 1
        self._checkpoints.on(event, self.clock.monotonic())
        if what == "restart":
            self._failure = text

    @property
    def state(self) -> State:
        """The state of the run."""
        return self.life.state

    def become(self, state: State) -> None:
        """Change the state of the run; no event if it is the same."""
        if self.life.become(state):
            self.note("state", state)

    def decided(self, checkpoint: CheckpointId, size: int, sinks: dict[str, int]) -> None:
        """A checkpoint is decided; `sinks` has the number of committables of each sink that are to be committed."""
        self.note("decided", f"checkpoint {checkpoint}", checkpoint=checkpoint, size=size, sinks=sinks)

    def settled(self, checkpoint: CheckpointId) -> None:
        """All output up to a checkpoint is visible."""
        self.note("settled", f"checkpoint {checkpoint}", checkpoint=checkpoint)

    def progress(
        self,
        worker: int,
        records: int,
        measured: Measured = NOTHING_MEASURED,
        flow: Mapping[Subtask, Flow] = NOTHING_FLOWS,
    ) -> None:
        """Update the counters and function metrics of a worker."""
        self._flow.update(flow)
        self._records[worker] = records
        self._measured[worker] = measured

    def attempt_begins(self) -> None:
        """Reset the function metrics; the output of the previous attempt is settled."""
        if self._checkpoints.newest_decided is not None:
            self._checkpoints.settled_until(
                self._checkpoints.newest_decided.checkpoint, self.clock.monotonic()
            )
        self._measured.clear()
        self._flow.clear()

    def part_over(self, workers: Iterable[int]) -> None:
        """Reset the counters of workers that end while others run."""
        for worker in workers:
            self._earlier += self._records.pop(worker, 0)
            self._measured.pop(worker, None)

    def accumulators(self) -> dict[str, Any]:
        """The merged values of the accumulators."""
        return totals(list(self._measured.values()))

    def attempt_over(self) -> None:
        """Reset the counters of all workers."""
        self._earlier += sum(self._records.values())
        self._records.clear()

    def fold(self) -> None:
        """Replace `latest` if it is outdated or the state has changed; cheap, called often."""
        now = self.clock.monotonic()
        if now - self._folded >= _FOLDED_S or self.latest.state != self.state:
            self._folded, self.latest = now, self.snapshot()

    def snapshot(self) -> RunSnapshot:
        """A snapshot of the run."""
        now, now_ms = self.clock.monotonic(), self.clock.now_ms()
        elapsed = now - self._started
        records = self._earlier + sum(self._records.values())
        checkpoints = self._checkpoints
        newest, settled_at = checkpoints.newest_decided, checkpoints.settled_at_s
        operators = operators_of(self._flow, self._per_second(elapsed), now_ms)
        behind = [each.behind_ms for each in operators.values() if each.behind_ms is not None]
        return RunSnapshot(
            at_ms=now_ms,
            state=self.state,
            elapsed_s=elapsed,
            records=records,
            per_second=self._rate.at(elapsed, records),
            decided=self._counts["decided"],
            settled=self._counts["settled"],
            aborted=self._counts["aborted"],
            newest_settled=checkpoints.newest_settled,
            settled_age_s=now - settled_at if settled_at is not None else None,
            restarts=self._counts["restart"],
            failure=self._failure,
            metrics={name: value for each in self._measured.values() for name, value in each.metrics.items()},
            flow={str(subtask): flow for subtask, flow in self._flow.items()},
            operators=operators,
            checkpoint_ms=newest.decided_after_ms if newest is not None else None,
            checkpoint_bytes=newest.size if newest is not None else None,
            open_transactions=checkpoints.open_transactions,
            unsettled_age_s=checkpoints.open_for_s(now),
            unsettled_reason=checkpoints.oldest_open.reason if checkpoints.oldest_open is not None else None,
            commits_retried=dict(self.commits_retried),
            behind_ms=max(behind, default=None),
            slowest=slowest(operators),
            checkpoints=checkpoints.figures,
            discovery=self.discovery.figures,
            warnings=self.discovery.warnings,
        )

    def _per_second(self, now: float) -> dict[str, float]:
        """The records per second of each chain."""
        counts: Counter[str] = Counter()
        for subtask, flow in self._flow.items():
            counts[subtask.vertex] += flow.records
        return {name: self._rates.setdefault(name, _Rate()).at(now, n) for name, n in counts.items()}


def log_commit_answers(
    status: RunStatus, answered: Answered, left: dict[str, int], news: Mapping[OperatorUid, str]
) -> None:
    """Log the answers of committers: `left` is the number of open committables of each sink, `news` has the refusals."""
    number = answered.checkpoint
    retried = [work.uid for work, answer in answered.answers if isinstance(answer, Retry)]
    status.commits_retried.update(retried)
    for uid, reason in news.items():
        status.note("retrying", f"checkpoint {number}: sink {uid!r}: {reason}", checkpoint=number, sinks=left)
    if len(retried) < len(answered.answers):
        status.note("committed", f"checkpoint {number}", checkpoint=number, sinks=left)
