"""The machines that a simulated pipeline runs on: those of the executors, unless a test puts a broken one in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.checkpoint.retention import FileRegistry
from tidegate.runtime.schedule.failover import Failover
from tidegate.runtime.schedule.heartbeats import Heartbeats
from tidegate.runtime.task.alignment import Alignment
from tidegate.testing.simulation.tasks import SinkTask
from tidegate.twophase.fencing import Verdict, judge
from tidegate.twophase.ledger import Ledger

__all__ = ["Machines"]


@dataclass(frozen=True, slots=True)
class Machines:
    """One of each; `sink` is no machine, but what surrounds one can be broken, too."""

    coordinator: type[CheckpointCoordinator] = CheckpointCoordinator
    registry: type[FileRegistry] = FileRegistry
    ledger: type[Ledger] = Ledger
    alignment: type[Alignment] = Alignment
    failover: type[Failover] = Failover
    heartbeats: type[Heartbeats] = Heartbeats
    judge: Callable[..., Verdict] = judge
    sink: type[SinkTask] = SinkTask
