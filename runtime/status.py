"""What a run is doing: an append-only list of events, folded with the counters into one frozen snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from tidegate.clock import Clock
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.metrics import Value
from tidegate.runtime.operators.measures import Measured, totals
from tidegate.runtime.schedule.states import JobLife, JobState
from tidegate.runtime.task.flow import Flow

__all__ = ["JobEvent", "RunStatus", "Snapshot", "State"]

State: TypeAlias = JobState
Happening = Literal["state", "triggered", "decided", "settled", "aborted", "restart", "said"]

NOTHING_MEASURED: Final = Measured()
NOTHING_FLOWS: Final[Mapping[Subtask, Flow]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened."""

    at_ms: int
    what: Happening
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment.

    `records` counts what sources have read since the run started, replayed records included.
    """

    state: State
    elapsed_s: float
    records: int
    per_second: float
    decided: int
    settled: int
    newest_settled: CheckpointId | None
    settled_age_s: float | None
    restarts: int
    metrics: Mapping[str, Value]
    """Of user functions, by operator uid, subtask and name."""
    flow: Mapping[str, Flow]
    """How freely records move, by subtask."""
    checkpoint_ms: int | None
    """How long the newest decided checkpoint took from its trigger on."""


@dataclass(slots=True)
class RunStatus:
    """Collects events and counters of one run; owned by the thread that coordinates it."""

    clock: Clock
    events: list[JobEvent] = field(default_factory=list)
    life: JobLife = field(default_factory=JobLife)
    _counts: Counter[str] = field(default_factory=Counter)
    _newest_settled: CheckpointId | None = None
    _settled_at: float | None = None
    _started: float = 0.0
    _earlier: int = 0
    _records: dict[int, int] = field(default_factory=dict)
    _measured: dict[int, Measured] = field(default_factory=dict)
    _flow: dict[Subtask, Flow] = field(default_factory=dict)
    _triggered_at: float = 0.0
    _checkpoint_ms: int | None = None
    _last: tuple[float, int, float] = (0.0, 0, 0.0)

    def __post_init__(self) -> None:
        self._started = self.clock.monotonic()

    @property
    def state(self) -> State:
        """What the run is doing."""
        return self.life.state

    def note(self, what: Happening, text: str) -> None:
        """Something happened."""
        self.events.append(JobEvent(self.clock.now_ms(), what, text))
        if what == "triggered":
            self._triggered_at = self.clock.monotonic()
        elif what == "decided":
            self._checkpoint_ms = round((self.clock.monotonic() - self._triggered_at) * 1000)
        self._counts[what] += 1

    def become(self, state: State) -> None:
        """The run is in this state from now on, if it was not before."""
        if self.life.become(state):
            self.note("state", state)

    def settled(self, checkpoint: CheckpointId) -> None:
        """All output up to a checkpoint is visible."""
        self._newest_settled = checkpoint
        self._settled_at = self.clock.monotonic()
        self.note("settled", f"checkpoint {checkpoint}")

    def progress(
        self,
        worker: int,
        records: int,
        measured: Measured = NOTHING_MEASURED,
        flow: Mapping[Subtask, Flow] = NOTHING_FLOWS,
    ) -> None:
        """A worker's sources have read this many records in this attempt, and its functions measured something."""
        self._flow.update(flow)
        self._records[worker] = records
        self._measured[worker] = measured

    def attempt_begins(self) -> None:
        """What functions measured in an earlier attempt is not part of what they measure now."""
        self._measured.clear()
        self._flow.clear()

    def part_over(self, workers: Iterable[int]) -> None:
        """Some workers end while others go on; what is counted for them starts again."""
        for worker in workers:
            self._earlier += self._records.pop(worker, 0)
            self._measured.pop(worker, None)

    def accumulators(self) -> dict[str, Any]:
        """What the accumulators of the functions come to."""
        return totals(list(self._measured.values()))

    def attempt_over(self) -> None:
        """The counters of the workers start again."""
        self._earlier += sum(self._records.values())
        self._records.clear()

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        now = self.clock.monotonic()
        elapsed = now - self._started
        records = self._earlier + sum(self._records.values())
        then, before, rate = self._last
        if elapsed - then >= 0.5:
            rate = (records - before) / (elapsed - then)
            self._last = (elapsed, records, rate)
        return Snapshot(
            state=self.state,
            elapsed_s=elapsed,
            records=records,
            per_second=rate,
            decided=self._counts["decided"],
            settled=self._counts["settled"],
            newest_settled=self._newest_settled,
            settled_age_s=now - self._settled_at if self._settled_at is not None else None,
            restarts=self._counts["restart"],
            metrics={name: value for each in self._measured.values() for name, value in each.metrics.items()},
            flow={str(subtask): flow for subtask, flow in self._flow.items()},
            checkpoint_ms=self._checkpoint_ms,
        )
