"""State machines of a simulated pipeline: those of the executors, unless a test substitutes a broken one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.ids import RunId
from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.checkpoint.retention import FileRegistry
from tidegate.runtime.schedule.failover import Failover
from tidegate.runtime.schedule.heartbeats import Heartbeats
from tidegate.runtime.task.alignment import Alignment
from tidegate.runtime.worker_lease import WorkerLease
from tidegate.testing.simulation.outside import Outside, Storage, fencing
from tidegate.testing.simulation.tasks import SinkTask
from tidegate.twophase.fencing import Verdict, judge
from tidegate.twophase.ledger import Ledger

__all__ = ["Machines"]


@dataclass(frozen=True, slots=True)
class Machines:
    """One of each. `sink` and `fencing` are no machines, but what surrounds one can be broken, too."""

    coordinator: type[CheckpointCoordinator] = CheckpointCoordinator
    registry: type[FileRegistry] = FileRegistry
    ledger: type[Ledger] = Ledger
    alignment: type[Alignment] = Alignment
    failover: type[Failover] = Failover
    heartbeats: type[Heartbeats] = Heartbeats
    judge: Callable[..., Verdict] = judge
    lease: type[WorkerLease] = WorkerLease
    fencing: Callable[[Outside, Storage, RunId, int], Iterator[None]] = fencing
    sink: type[SinkTask] = SinkTask
